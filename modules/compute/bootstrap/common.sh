# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts that read this file use its variables
# What every script on a node shares: configuration, log, instance metadata, the
# parameters through which nodes talk, and the status that each one reports.
#
# Scripts run under errexit and are run again by systemd after a failure: a step
# that fails ends the run, and the next run goes on from what is on disk and in
# the parameters. Secrets go through files below $RUN_DIR, which is in memory,
# never through arguments.

set -Eeuo pipefail
# The last command of a pipe runs in this shell, so that it can set ERROR.
shopt -s inherit_errexit lastpipe
umask 077
export LC_ALL=C DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a
# systemd gives services no home, which some programs want.
export PATH=$PATH:/snap/bin HOME=${HOME:-/root}

# ROOT is empty on a node; tests put it before every path of the system.
ROOT=${KUBEOPERA_ROOT:-}
LIB_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ETC_DIR=$ROOT/etc/kubeopera
STATE_DIR=$ROOT/var/lib/kubeopera
RUN_DIR=$ROOT/run/kubeopera
KUBERNETES_DIR=$ROOT/etc/kubernetes
mkdir -p "$STATE_DIR" "$RUN_DIR/parameters"

# The override is for proxies and simulators: it may set any variable of the other
# two and of the environment (AWS_ENDPOINT_URL, HTTPS_PROXY).
set -a
# shellcheck source=versions.env
. "$LIB_DIR/versions.env"
# shellcheck source=/dev/null
. "$ETC_DIR/bootstrap.env"
if [[ -f $ETC_DIR/bootstrap.override ]]; then
  # shellcheck source=/dev/null
  . "$ETC_DIR/bootstrap.override"
fi
set +a

IMDS=${KUBEOPERA_IMDS:-http://169.254.169.254}
POLL_SECONDS=${KUBEOPERA_POLL_SECONDS:-15}
# A node gives up after so many failed runs, or after waiting so long for others.
MAX_ATTEMPTS=${KUBEOPERA_MAX_ATTEMPTS:-15}
WAIT_SECONDS=${KUBEOPERA_WAIT_SECONDS:-3600}
# How long a node may be at joining before the next one stops waiting for it.
LEASE_SECONDS=${KUBEOPERA_LEASE_SECONDS:-1200}
# How long a component may take until it is ready.
READY_SECONDS=${KUBEOPERA_READY_SECONDS:-600}
ADDONS=${KUBEOPERA_ADDONS-calico cloud-controller-manager ebs-csi}
# The CLI backs off by itself when it is throttled.
export AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=${AWS_MAX_ATTEMPTS:-8} AWS_PAGER=

PREFIX=$KUBEOPERA_PARAMETER_PREFIX
ROLE=$KUBEOPERA_ROLE
INDEX=${KUBEOPERA_INDEX:-0}
COUNT=${KUBEOPERA_CONTROL_PLANE_COUNT:-1}
NODE=$ROLE-$INDEX
PHASE=start
ERROR= # what the last failed command said

log() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*"; }

# redact takes out what looks like a bootstrap token or a certificate key.
redact() { sed -u -E 's/[a-z0-9]{6}\.[a-z0-9]{16}/[redacted]/g; s/[0-9a-f]{64}/[redacted]/g'; }

# one_line shortens a text to what fits into a status or a reason.
one_line() { redact | tr -c '[:alnum:] .,:;/_=()[]"<>@%+-' ' ' | tr -s ' ' | cut -c1-400 | sed 's/^ //; s/ $//'; }

# die gives up for good: another run could not help.
die() {
  ERROR=$*
  exit 3
}

# run runs a command; its output goes to the log and, if it fails, its end becomes
# the error.
run() {
  local code=0
  log "+ $*"
  "$@" 2>&1 </dev/null | redact | tee "$RUN_DIR/output" || code=$?
  if ((code != 0)); then
    if [[ $1 == timeout ]]; then shift 2; fi
    ERROR="$1 ${2:-}: $(say "$RUN_DIR/output")"
    return "$code"
  fi
}

# say is what a command's output says of its failure.
say() {
  local lines
  lines=$(grep -iE 'error|fail|denied|refused|timed out|unable' "$1" | tail -n 4 || true)
  if [[ -z $lines ]]; then
    lines=$(tail -n 2 "$1")
  fi
  one_line <<<"$lines"
}

# retry runs a command until it succeeds, at most $1 times. It must be a single
# command: errexit does not reach into a condition.
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
    sleep $((n * 5 + RANDOM % 5))
  done
}

pause() { sleep $((POLL_SECONDS + RANDOM % (POLL_SECONDS / 3 + 1))); }

now() { date +%s; }

has_addon() { [[ " $ADDONS " == *" $1 "* ]]; }

# --- instance metadata ---------------------------------------------------------

imds_curl() { curl -sS -f --noproxy '*' --connect-timeout 2 --max-time 5 --retry 8 --retry-connrefused "$@"; }

# The token's header is read from a file: arguments are visible to all.
imds() { imds_curl -H @<(printf 'X-aws-ec2-metadata-token: %s' "$IMDS_TOKEN") "$IMDS/latest/meta-data/$1"; }

# identify finds out which machine this is.
identify() {
  IMDS_TOKEN=$(imds_curl -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$IMDS/latest/api/token")
  INSTANCE_ID=$(imds instance-id)
  NODE_IP=$(imds local-ipv4)
  ZONE=$(imds placement/availability-zone)
  AWS_REGION=$(imds placement/region)
  NODE_NAME=$(imds local-hostname)
  NODE_NAME=${NODE_NAME%%[. ]*}
  NODE_NAME=${NODE_NAME,,}
  if [[ $ROLE == worker ]]; then
    NODE=worker-$INSTANCE_ID
  fi
  ENDPOINT_HOST=${KUBEOPERA_ENDPOINT_HOST:-$NODE_IP}
  ENDPOINT=${ENDPOINT_HOST,,}:6443
  # The old CLI reads the second one.
  export AWS_REGION AWS_DEFAULT_REGION=$AWS_REGION AWS_EC2_METADATA_SERVICE_ENDPOINT=$IMDS
}

# instance_gone says whether an instance, which was there at a time, can never come
# back. EC2 forgets one that is gone after an hour, and may need minutes to find one
# that is new.
#   instance_gone <id> <epoch>
instance_gone() {
  local state
  if ! state=$(aws ec2 describe-instances --instance-ids "$1" \
    --query 'Reservations[].Instances[].State.Name' --output text 2>"$RUN_DIR/describe"); then
    grep -q 'InvalidInstanceID.NotFound' "$RUN_DIR/describe" && (($(now) - $2 > LEASE_SECONDS))
    return
  fi
  [[ $state == terminated ]]
}

# --- parameters ----------------------------------------------------------------

# read_parameters reads up to ten parameters in one call. A parameter that does not
# exist is empty afterwards.
read_parameters() {
  local name value names=()
  for name in "$@"; do
    rm -f "$RUN_DIR/parameters/$name"
    names+=("$PREFIX/$name")
  done
  if ! aws ssm get-parameters --names "${names[@]}" --with-decryption \
    --query 'Parameters[].[Name,Value]' --output text >"$RUN_DIR/answer" 2>"$RUN_DIR/output"; then
    ERROR="read parameters: $(say "$RUN_DIR/output")"
    return 1
  fi
  while IFS=$'\t' read -r name value; do
    name=${name#"$PREFIX/"}
    mkdir -p "$(dirname "$RUN_DIR/parameters/$name")"
    printf '%s' "$value" >"$RUN_DIR/parameters/$name"
  done <"$RUN_DIR/answer"
  rm -f "$RUN_DIR/answer"
}

# parameter is the value that read_parameters has read.
parameter() { cat "$RUN_DIR/parameters/$1" 2>/dev/null || true; }

# put_parameter stores what it reads from standard input.
put_parameter() {
  local name=$1
  shift
  cat >"$RUN_DIR/value"
  aws ssm put-parameter --name "$PREFIX/$name" --type SecureString --tier Standard "$@" \
    --value "file://$RUN_DIR/value" >/dev/null 2>"$RUN_DIR/put"
}

write_parameter() {
  if ! put_parameter "$1" --overwrite; then
    ERROR="write $1: $(say "$RUN_DIR/put")"
    return 1
  fi
}

# claim creates a parameter. SSM creates each name once, so of many machines that
# try, one succeeds. True if it is ours, also after an answer that was lost; else
# the parameter has been read.
claim() {
  if printf '%s:%s:%s' "$INSTANCE_ID" "$INDEX" "$(now)" | put_parameter "$1"; then
    return 0
  fi
  if ! grep -q ParameterAlreadyExists "$RUN_DIR/put"; then
    ERROR="claim $1: $(say "$RUN_DIR/put")"
    exit 1
  fi
  read_parameters "$1" || exit 1
  [[ $(parameter "$1") == "$INSTANCE_ID:"* ]]
}

# --- status --------------------------------------------------------------------

# write_status publishes where the node is.
write_status() {
  local text
  text=$(one_line <<<"$2")
  log "$1 $PHASE: $text"
  printf '%s|%s|%s|%s|%s' "$1" "$PHASE" "$INSTANCE_ID" "$(now)" "${text//|/ }" | write_parameter "bootstrap_status/$NODE"
}

# report is write_status for what is only of interest: it must not stop the node.
report() {
  local error=$ERROR
  if ! write_status "$@"; then
    log "$ERROR"
    ERROR=$error
  fi
}

# phase begins a step.
phase() {
  PHASE=$1
  report RUNNING "${2:-}"
}

# wait_note reports what is being waited for, once per reason.
wait_note() {
  if [[ ${WAIT_NOTE:-} != "$1" ]]; then
    WAIT_NOTE=$1
    report RUNNING "$1"
  fi
}

# until_ready repeats a check until it succeeds, for at most READY_SECONDS.
#   until_ready <what is waited for> <function>
until_ready() {
  local deadline=$(($(now) + READY_SECONDS))
  while ! "$2"; do
    if (($(now) > deadline)); then
      ERROR="$1: not within $READY_SECONDS s; $(say "$RUN_DIR/output")"
      return 1
    fi
    wait_note "waiting for $1"
    pause
  done
}

# finish is the exit trap: it reports why the run ended, and whether there will be
# another one (exit code 3 tells systemd that there will not).
finish() {
  local code=$1 attempts=0
  trap - EXIT ERR
  set +e
  if ((code == 0)); then
    exit 0
  fi
  [[ -n $ERROR ]] || ERROR="stopped at $LINE with code $code"
  attempts=$(cat "$STATE_DIR/attempts" 2>/dev/null)
  attempts=$((${attempts:-0} + 1))
  printf '%s' "$attempts" >"$STATE_DIR/attempts"
  if [[ -z ${INSTANCE_ID:-} ]]; then
    log "attempt $attempts: $ERROR"
    exit "$code"
  fi
  if ((code != 3 && attempts < MAX_ATTEMPTS)); then
    report RUNNING "attempt $attempts failed: $ERROR"
    exit 1
  fi
  # A failure that nobody can read would be waited for in vain: once more, then.
  write_status FAILED "$ERROR" && { [[ $ROLE == worker ]] || fail_slot; } || exit 1
  exit 3
}

# begin prepares a run. Two at once on one machine would undo each other's work.
begin() {
  LINE=start
  exec 9>"$RUN_DIR/lock"
  if ! flock -n 9; then
    log "another run is at work"
    exit 0
  fi
  # A reboot is somebody's wish to try again.
  local boot
  boot=$(cat "$ROOT/proc/sys/kernel/random/boot_id")
  if [[ $(cat "$STATE_DIR/boot" 2>/dev/null || true) != "$boot" ]]; then
    printf '%s' "$boot" >"$STATE_DIR/boot"
    rm -f "$STATE_DIR/attempts"
  fi
  [[ -e $STATE_DIR/begun ]] || now >"$STATE_DIR/begun"
  trap 'LINE=${BASH_SOURCE[0]##*/}:$LINENO' ERR
  trap 'finish $?' EXIT
  identify
  if ! command -v aws >/dev/null; then
    retry 20 snap install "$AWS_CLI_SNAP" --classic
  fi
}

# complete marks the node as finished, for good: the unit does not start again.
complete() {
  PHASE="done"
  write_status DONE "$1"
  touch "$STATE_DIR/bootstrapped"
  rm -f "$STATE_DIR/attempts"
}
