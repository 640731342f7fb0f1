"""The example runs from its first cell to its last."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_tour_runs():
    model = next((ROOT / "share/models").glob("*.gguf"))
    tour = subprocess.run(
        [sys.executable, str(ROOT / "examples/python/tour.py"), str(model)], capture_output=True, text=True, timeout=300
    )
    assert tour.returncode == 0, tour.stdout + tour.stderr
    assert "tokens)" in tour.stdout
