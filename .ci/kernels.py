#!/usr/bin/env python3
"""Compiles every CUDA kernel for Volta, Turing and Ampere without NVIDIA's toolkit, and compares what they take.

clang 14 makes PTX with the headers of CUDA 12.8, and that version's ptxas assembles it; both come from two wheels of
PyPI. (nvcc 13 no longer knows Volta, and nvcc 12 is not among the wheels.) A kernel that spills registers is an error.
Registers and shared memory of each kernel and architecture are kept in cuda/resources.txt, so that a change shows.

usage: .ci/kernels.py [--write]
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "cuda-12.8"
WHEELS = ["nvidia-cuda-nvcc-cu12==12.8.93", "nvidia-cuda-runtime-cu12==12.8.90"]
# Headers that clang's wrapper includes, and CUDA 12 dropped or keeps in another wheel; kernels use nothing of them.
STUBS = ["texture_fetch_functions.h", "surface_functions.h", "texture_indirect_functions.h", "curand_mtgp32_kernel.h"]
ARCHITECTURES = ["70", "75", "80"]
TABLE = ROOT / "cuda" / "resources.txt"


def python():
    """One that has pip: that of the tests, where ./dev made it."""
    own = ROOT / ".venv" / "bin" / "python"
    return own if own.exists() else sys.executable


def toolkit():
    """The wheels' contents, laid out as clang expects a toolkit."""
    if (CACHE / "complete").exists():
        return
    shutil.rmtree(CACHE, ignore_errors=True)
    download = CACHE / "wheels"
    download.mkdir(parents=True)
    if subprocess.run([python(), "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                       "--dest", download, *WHEELS]).returncode:
        print("pip could not fetch the compiler's wheels: the kernels are not compared with cuda/resources.txt")
        sys.exit(0)
    for wheel in download.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(CACHE / "unpacked")
    for part in (CACHE / "unpacked" / "nvidia").iterdir():
        if part.is_dir():
            shutil.copytree(part, CACHE / "toolkit", dirs_exist_ok=True)
    for name in ("cuda_nvcc", "cuda_runtime"):
        assert (CACHE / "unpacked" / "nvidia" / name).exists()
    (CACHE / "toolkit" / "bin" / "ptxas").chmod(0o755)
    (CACHE / "stubs").mkdir()
    for stub in STUBS:
        (CACHE / "stubs" / stub).touch()
    shutil.rmtree(download)
    shutil.rmtree(CACHE / "unpacked")
    (CACHE / "complete").touch()


def readable(mangled):
    name = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout.strip()
    name = name.replace("coterie::cuda::", "").replace("(anonymous namespace)::", "").replace("void ", "")
    name = re.sub(r"\(coterie::Type\)(\d+)", r"type \1", name)
    return re.sub(r"\((?!anonymous).*\)$", "", name)


def compile_one(source, architecture):
    """-> [(kernel, architecture, registers, shared bytes)] or the compiler's words."""
    ptx = CACHE / f"{source.stem}.{architecture}.ptx"
    front = subprocess.run(
        ["clang++-14", "-x", "cuda", f"--cuda-gpu-arch=sm_{architecture}", "--cuda-device-only", "-S", "-O3", "-std=c++20",
         f"--cuda-path={CACHE / 'toolkit'}", "-Wno-unknown-cuda-version", "-D__CLANG_CUDA_TEXTURE_INTRINSICS_H__", "-w",
         "-I", CACHE / "stubs", "-I", ROOT, "-I", ROOT / "lib", source, "-o", ptx], capture_output=True, text=True)
    if front.returncode:
        return front.stderr
    back = subprocess.run([CACHE / "toolkit" / "bin" / "ptxas", f"-arch=sm_{architecture}", "-v", "--warn-on-spills",
                           "--warning-as-error", ptx, "-o", os.devnull], capture_output=True, text=True)
    if back.returncode:
        return back.stderr
    found, kernel = [], None
    for line in back.stderr.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            kernel = readable(match[1])
        if match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found.append((kernel, architecture, int(match[1]), int(shared[1]) if shared else 0))
    return found


def main():
    for tool in ("clang++-14", "c++filt"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing; install it with: apt-get install clang-14 binutils")
    toolkit()
    sources = sorted((ROOT / "cuda" / "kernels").glob("*.cu"))
    jobs = [(s, a) for s in sources for a in ARCHITECTURES]
    rows, failed = {}, False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (source, architecture), result in zip(jobs, pool.map(lambda job: compile_one(*job), jobs)):
            if isinstance(result, str):
                failed = True
                print(f"{source.name} for sm_{architecture}:\n{result}")
                continue
            for kernel, a, registers, shared in result:
                rows.setdefault((source.name, kernel), {})[a] = f"{registers}/{shared}"
    if failed:
        sys.exit("kernels did not compile, or spill; see above")
    lines = ["# Registers a thread and bytes of static shared memory a block of every kernel, by architecture: clang 14 and ptxas",
             "# 12.8. Made by .ci/kernels.py --write; compared by .ci/run.",
             f"{'':58}" + "".join(f"{'sm_' + a:>12}" for a in ARCHITECTURES)]
    for (file, kernel), by in sorted(rows.items()):
        lines.append(f"{file + ': ' + kernel:58}" + "".join(f"{by.get(a, '-'):>12}" for a in ARCHITECTURES))
    text = "\n".join(lines) + "\n"
    if "--write" in sys.argv:
        TABLE.write_text(text)
    elif not TABLE.exists() or TABLE.read_text() != text:
        old = TABLE.read_text().splitlines() if TABLE.exists() else []
        changed = [line for line in text.splitlines() if line not in old]
        sys.exit("kernels take other resources than cuda/resources.txt says; look, and if it is meant: .ci/kernels.py --write\n"
                 + "\n".join(changed))
    print(f"{len(rows)} kernels compile for {', '.join('sm_' + a for a in ARCHITECTURES)} without spills")


if __name__ == "__main__":
    main()
