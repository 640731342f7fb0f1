#!/usr/bin/env bash
# Runs the tests of the server, or says why it doesn't (status 77: skipped). usage: run.sh SERVER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${COTERIE_PYTHON:-$here/../../.venv/bin/python}
export COTERIE_SERVER=$1
[[ -x $python ]] || { echo "skipped: there is no $python; ./dev test makes it"; exit 77; }
"$python" -c 'import ollama, openai, pytest, requests' 2>/dev/null ||
    { echo "skipped: $python lacks ollama, openai, pytest or requests; ./dev test installs them"; exit 77; }
exec "$python" -m pytest -q -rs -p no:cacheprovider "$here"
