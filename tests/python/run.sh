#!/usr/bin/env bash
# Runs the tests of the Python package, or says why it doesn't (status 77: skipped). usage: run.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${COTERIE_PYTHON:-$here/../../.venv/bin/python}
[[ -x $python ]] || { echo "skipped: there is no $python; ./dev test makes it"; exit 77; }
cd /  # so that the installed package is found, and nothing of the source tree
"$python" -c 'import coterie, pytest' 2>/dev/null ||
    { echo "skipped: $python lacks coterie or pytest; ./dev test installs them"; exit 77; }
exec "$python" -m pytest -q -p no:cacheprovider "$here"
