#!/usr/bin/env python3
"""From a trained folder to GGUF: export.py FOLDER OUT.gguf [--f32]

F16 unless --f32. The conversion is tests/golden/convert.py's; added are what a shipped file says of itself: licence,
author, description and sampling defaults.
"""

import argparse
import json
import sys
from pathlib import Path

from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import convert  # noqa: E402

NAMES = {"qwen3_moe": "Coterie Box", "qwen3_5_moe_text": "Coterie Box Delta"}


def describe(writer, config: dict) -> None:
    writer.add_author("The Coterie authors")
    writer.add_license("mit")
    writer.add_languages(["en"])
    writer.add_description(
        "A very small mixture of experts, trained from nothing on text made by its own script. For demonstrations and "
        "tests: it adds, sorts, counts, writes JSON records and calls three tools; it knows nothing else."
    )
    # A small model is right with its likeliest token; a little variety is left for stories.
    writer.add_sampling_temp(0.3)
    writer.add_sampling_top_k(20)
    writer.add_sampling_top_p(0.9)
    writer.add_sampling_min_p(0.0)


def export(folder: Path, out: Path, half: bool) -> None:
    config = json.loads((folder / "config.json").read_text())
    config = config.get("text_config", config)
    state = {name: tensor.float().numpy() for name, tensor in load_file(folder / "model.safetensors").items()}
    vocabulary = convert.read_vocabulary(folder, config["vocab_size"])
    convert.convert(
        state,
        config,
        vocabulary,
        out,
        NAMES[config["model_type"]],
        half=half,
        describe=lambda writer: describe(writer, config),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--f32", action="store_true")
    options = parser.parse_args()
    export(options.folder, options.out, not options.f32)


if __name__ == "__main__":
    main()
