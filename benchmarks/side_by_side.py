#!/usr/bin/env python3
"""Coterie and another engine's llama-bench on the same file, in turn, so that a drifting machine drifts for both.

Every round runs `coterie bench` and then the peer, once per test; printed are medians over the rounds, the
spread, and the ratio of medians. Several sequences at once need the peer's llama-batched-bench, looked for
beside llama-bench. Standard library only.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

def numbers(text):
    return [int(n) for n in text.split(",") if n]

def run(command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-5:]
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n" + "\n".join(last))
    return done.stdout, done.stderr

def ours(a, tests):
    """{test: tokens/s} of one run; a test is (prompt, gen, sequences, depth)."""
    found = {}
    for depth in sorted({t[3] for t in tests}):
        mine = [t for t in tests if t[3] == depth]
        command = [a.coterie, "bench", a.model, "--json", "-r", "1", "-t", str(a.threads), "-d", str(depth),
                   "-p", ",".join(str(t[0]) for t in mine if t[0]) or "0",
                   "-n", str(a.gen) if any(t[1] for t in mine) else "0",
                   "-b", ",".join(str(t[2]) for t in mine if t[1]) or "1"] + a.ours.split()
        for r in json.loads(run(command)[0])["results"]:
            found[r["n_prompt"], r["n_gen"], r["n_sequences"], r["n_context"]] = r["tokens_per_second"]
    return {t: found[t] for t in tests}

def theirs(a, tests):
    found = {}
    for prompt, gen, sequences, depth in tests:
        if sequences == 1:
            command = [a.peer, "-m", a.model, "-t", str(a.threads), "-o", "json", "-r", "1", "-p", str(prompt),
                       "-n", str(gen)] + (["-d", str(depth)] if depth else []) + a.options.split()
            results = json.loads(run(command)[0])
            if len(results) != 1:
                sys.exit(f"{' '.join(command)} gave {len(results)} results, expected one")
            found[prompt, gen, 1, depth] = results[0]["avg_ts"]
    batched = [t[2] for t in tests if t[2] > 1]
    if batched:
        most = max(batched)
        command = [a.batched, "-m", a.model, "-t", str(a.threads), "-c", str(most * (a.gen + 64)), "-npp", "16",
                   "-ntg", str(a.gen), "-npl", ",".join(map(str, batched)), "--output-format",
                   "jsonl"] + (a.options if a.batched_options is None else a.batched_options).split()
        for line in "\n".join(run(command)).splitlines():
            if line.startswith("{"):
                r = json.loads(line)
                found[0, a.gen, r["pl"], 0] = r["speed_tg"]
            elif re.match(r"\|\s*\d", line):  # PP, TG, B, N_KV, T_PP, S_PP, T_TG, S_TG, ...
                cells = line.strip("| \n").split("|")
                found[0, a.gen, int(cells[2]), 0] = float(cells[7])
    return found

def name(test):
    prompt, gen, sequences, depth = test
    if prompt:
        return f"prompt {prompt}"
    text = f"decode {gen}"
    if sequences > 1:
        text += f", {sequences} sequences"
    if depth:
        text += f", after {depth}"
    return text

def main():
    p = argparse.ArgumentParser(prog="./dev bench --peer", description=__doc__)
    p.add_argument("peer", help="llama-bench of llama.cpp or of a relative")
    p.add_argument("model", help="GGUF file")
    p.add_argument("-p", "--prompt", default="512", help="prompt lengths: 128,512")
    p.add_argument("-n", "--gen", type=int, default=64, help="tokens decoded")
    p.add_argument("-b", "--sequences", default="1", help="sequences decoded at once: 1,2,4,8")
    p.add_argument("-d", "--depth", default="0", help="tokens in the context before decoding: 0,4096")
    p.add_argument("-r", "--rounds", type=int, default=3)
    p.add_argument("-t", "--threads", type=int, default=os.cpu_count())
    p.add_argument("--options", default="-fa 1", help="further options of the peer, as one text")
    p.add_argument("--batched-options", help="of its llama-batched-bench, where they differ")
    p.add_argument("--ours", default="", help="further options of coterie bench, as one text")
    p.add_argument("--coterie", default="build/bin/coterie")
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    a.batched = os.path.join(os.path.dirname(a.peer), "llama-batched-bench")
    tests = [(n, 0, 1, 0) for n in numbers(a.prompt) if n]
    if a.gen:
        tests += [(0, a.gen, 1, d) for d in numbers(a.depth)]
        tests += [(0, a.gen, s, 0) for s in numbers(a.sequences) if s > 1]
    if any(t[2] > 1 for t in tests) and not os.access(a.batched, os.X_OK):
        sys.exit(f"several sequences need {a.batched}, which is not there: build it, or ask for -b 1")
    samples = [[], []]
    for i in range(a.rounds):
        print(f"round {i + 1} of {a.rounds}", file=sys.stderr)
        for side, measure in enumerate((ours, theirs)):
            samples[side].append(measure(a, tests))
    rows = []
    for t in tests:
        pair = [[s[t] for s in side] for side in samples]
        rows.append({"test": name(t), "n_prompt": t[0], "n_gen": t[1], "n_sequences": t[2], "n_context": t[3],
                     "coterie": pair[0], "peer": pair[1],
                     "ratio": statistics.median(pair[0]) / statistics.median(pair[1])})
    if a.json:
        print(json.dumps({"results": rows}, indent=2))
        return
    print(f"tokens/s, median of {a.rounds} (least-most)")
    print(f"{'':26}{'Coterie':>24}{'peer':>24}{'ratio':>8}")
    for r in rows:
        cells = [f"{statistics.median(v):.1f} ({min(v):.1f}-{max(v):.1f})" for v in (r["coterie"], r["peer"])]
        print(f"{r['test']:26}{cells[0]:>24}{cells[1]:>24}{r['ratio']:8.2f}")

if __name__ == "__main__":
    main()
