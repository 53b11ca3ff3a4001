# shellcheck shell=bash
# Every step begins with this: strictness, exit codes, and where things are.

set -Eeuo pipefail
shopt -s inherit_errexit
# Packages and templates make files that others are to read; ours say otherwise.
umask 022
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a HOME=${HOME:-/root}

# ROOT is empty on a machine; tests put it before every path of the system.
ROOT=${KUBEOPERA_ROOT:-}
if [[ -z $ROOT ]]; then
  # sudo may leave out directories that packages and downloads go to.
  export PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin
fi
ETC_DIR=$ROOT/etc/kubeopera
STATE_DIR=$ROOT/var/lib/kubeopera
RUN_DIR=$ROOT/run/kubeopera
KUBERNETES_DIR=$ROOT/etc/kubernetes
(umask 077 && mkdir -p "$STATE_DIR" "$RUN_DIR")
# In memory, and gone when the step ends: secrets may be in there.
WORK=$(mktemp -d "$RUN_DIR/step.XXXXXX")

log() { printf 'kubeopera: %s\n' "$*" >&2; }

# die ends the step with one of the exit codes.
#   die <code> <message>
die() {
  log "$2"
  printf '%s' "$1" >"$WORK/died"
  exit "$1"
}

# ended is the exit trap. Who died has said so; any other failure is of the step's
# class, whatever the status of the command was.
ended() {
  local code=$1
  trap - EXIT ERR
  set +e
  if ((code != 0)); then
    code=$CLASS
    if [[ -s $WORK/died ]]; then
      code=$(<"$WORK/died")
    fi
  fi
  shred_all
  rm -rf "$WORK"
  exit "$code"
}

# secret_file begins an empty file that only root may read, and that shred_all finds.
secret_file() { install -m 600 /dev/null "$WORK/$1.secret"; }

# shred_all overwrites what a step may have written of secrets.
shred_all() {
  local file
  for file in "$WORK"/*.secret; do
    if [[ -f $file ]]; then
      shred -u "$file" 2>/dev/null || rm -f "$file"
    fi
  done
}

# failed is the error trap. Of a command that went through our own wrappers the line
# is that of the call.
failed() {
  local line=$2 depth=1
  while [[ ${FUNCNAME[depth]:-} == @(run|retry|apt|dnf_|apply) ]]; do
    line=${BASH_LINENO[depth]}
    depth=$((depth + 1))
  done
  log "line $line: command failed with status $1"
}

trap 'failed $? $LINENO' ERR
trap 'ended $?' EXIT

# begin takes the machine: two steps at once would undo each other's work. Who only
# asks does without.
begin() {
  load_settings
  exec 9>"$RUN_DIR/lock"
  if ! flock -w "${KUBEOPERA_LOCK_SECONDS:-600}" 9; then
    die "$EXIT_DEPENDENCY" "another step has been at work on this machine for ${KUBEOPERA_LOCK_SECONDS:-600} s"
  fi
}

# run runs a command. All output goes to standard error: standard output is for
# the results of steps that have one.
run() {
  log "+ $*"
  "$@" </dev/null >&2
}

# retry runs a command until it succeeds, at most $1 times.
retry() {
  local times=$1 n
  shift
  for ((n = 1; ; n++)); do
    if run "$@"; then
      return 0
    fi
    if ((n >= times)); then
      return 1
    fi
    log "attempt $n of $times failed: $1"
    sleep $((n * RETRY_SECONDS))
  done
}

now() { date +%s; }

# within repeats a check until it succeeds, for at most so many seconds.
#   within <seconds> <what is waited for> <function>
within() {
  local deadline=$(($(now) + $1)) said=
  while ! "$3"; do
    if (($(now) >= deadline)); then
      log "$2: not within $1 s"
      return 1
    fi
    if [[ -z $said ]]; then
      log "waiting for $2"
      said=1
    fi
    sleep "$POLL_SECONDS"
  done
}

# read_secrets reads lines NAME=base64 from standard input into variables of the
# shell. They are not exported and thus in no other process's environment.
#   read_secrets <name>...
read_secrets() {
  local line name value wanted=" $* "
  while IFS= read -r line; do
    name=${line%%=*}
    if [[ $line != *=* || $wanted != *" $name "* ]]; then
      die "$EXIT_INPUT" "standard input has a value that nothing asked for"
    fi
    value=$(printf '%s' "${line#*=}" | base64 -d && printf x)
    printf -v "$name" '%s' "${value%x}"
  done
  for name in "$@"; do
    if [[ -z ${!name:-} ]]; then
      die "$EXIT_INPUT" "standard input has no $name"
    fi
  done
}

# same_content says whether a file holds exactly a text; put writes it otherwise.
same_content() { [[ -f $1 && $(cat "$1" && printf x) == "$2x" ]]; }

# put writes a file that all may read, unless it is so already. CHANGED becomes 1 if it was not.
#   put <path> <content>
put() {
  if same_content "$1" "$2"; then
    return
  fi
  mkdir -p "$(dirname "$1")"
  printf '%s' "$2" >"$1.kubeopera"
  chmod 644 "$1.kubeopera"
  mv -f "$1.kubeopera" "$1"
  log "wrote ${1#"$ROOT"}"
  CHANGED=1
}
