"""The systemd unit, as systemd itself reads it."""
import pathlib
import shutil
import subprocess

import pytest

UNIT = pathlib.Path(__file__).resolve().parents[2] / "examples/server/coterie-server.service"


def verify(text, folder):
    unit = folder / UNIT.name
    unit.write_text(text)
    return subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_the_unit_is_well_formed(tmp_path):
    text = UNIT.read_text().replace("/usr/local/bin/coterie-server", "/bin/true")
    assert "/bin/true" in text
    found = verify(text, tmp_path)
    assert found.returncode == 0 and "coterie-server" not in found.stderr, found.stderr
    assert verify(text.replace("ExecStart=", "ExecSart="), tmp_path).returncode != 0
