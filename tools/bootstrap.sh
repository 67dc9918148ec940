#!/bin/sh
# Create the project's virtual environment and install the pinned requirements into it.
#
# PYTHON: the interpreter to use; else the first Python >= 3.11 on PATH.
# VENV:   the folder of the environment (.venv).
# GROUP:  the dependency group to install (dev).
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
group=${GROUP:-dev}

stop() {
    echo "$1" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python python3.14 python3.13 python3.12 python3.11}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

create() {
    for maker in "$1 -m venv" "$1 -m virtualenv" "virtualenv --python $1" "uv venv --seed --python $1"; do
        rm -rf "$venv"
        if $maker "$venv" >/dev/null 2>&1 && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
            echo "Created $venv with: $maker"
            return
        fi
    done
    rm -rf "$venv"
    return 1
}

if ! { new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }; then
    python=$(find_python) || stop "No Python >= 3.11 found. Install Python 3.11 or newer, then run this again."
    create "$python" || stop "No virtual environment could be made with $python. Install virtualenv (on Debian and Ubuntu: \
apt install python3-venv), then run this again."
fi

echo "Installing the requirements into $venv"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --upgrade --constraint constraints.txt pip
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --constraint constraints.txt --group "$group" \
    --editable ".[harness,code-mode,channels,celery,spectacular,postgres]"
