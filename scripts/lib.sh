# What scripts/demo and scripts/install share: where programs are, and a line per step with its time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/.venv/bin:$PATH"

bold() { if [ -t 1 ]; then printf '\033[1m%s\033[0m\n' "$*"; else printf '%s\n' "$*"; fi; }

# step TITLE COMMAND...: runs it, its own progress shown, and says how long it took.
step() {
  local title=$1 began=$SECONDS
  shift
  bold "==> $title"
  "$@"
  printf '    %s: %d s\n' "$title" $((SECONDS - began))
}

# The cluster's own kubectl and helm where there are such, else those on PATH.
program() {
  local own
  own=$(python -c 'import sys; from iris_devcluster.images.programs import program; print(program(sys.argv[1]))' "$1" 2>/dev/null) ||
    own=$(command -v "$1") || { echo "$1 is not here: run make setup" >&2; exit 1; }
  printf '%s' "$own"
}
