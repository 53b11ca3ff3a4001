# shellcheck shell=sh
# What one session does on the host, as root, for one step. The client puts
# values for these in front of it, and braces around both, so that a program
# that was cut on its way does not parse:
#   steps, id        directory of all steps, name of this one
#   attempt          the run that this client would begin
#   target           the run that it would stop
#   mark             stands before what the client is to understand
#   offset           how much of the log it has already
#   boot_file        where the kernel tells the boot id
#   supervise_size, script_size, stdin_size
#                    lengths of what follows on standard input
#   grace            seconds between TERM and KILL
#   kept             how many steps to remember
# and calls one of start, follow and stop.

dir=$steps/$id

say() { printf '%s %s\n' "$mark" "$*"; }

# over says whether the supervisor of the step lives no more: it holds the lock.
over() { flock -n -s "$dir/lock" true; }

# owner sets whose run there is, and under which boot its supervisor has which process.
owner() {
  run=
  [ -e "$dir/claim" ] && read -r run boot pid <"$dir/claim" && [ -n "$run" ]
}

# start begins the run, unless one goes on, or has ended and nobody knows how.
start() {
  for tool in bash flock head mktemp setsid stat tail tee timeout; do
    if ! command -v "$tool" >/dev/null 2>&1; then
      say fail "the host has no command $tool"
      return
    fi
  done
  umask 077
  mkdir -p "$steps" || return
  new=
  prepare
  if [ -z "$new" ]; then
    say fail "the host cannot make a directory in $steps: is the disk full?"
    return
  fi
  if ! head -c "$((supervise_size + script_size + stdin_size))" >"$new/input"; then
    say fail "the host cannot store the script: is the disk full?"
    rm -rf "$new"
    return
  fi
  if [ "$(stat -c %s "$new/input")" -ne "$((supervise_size + script_size + stdin_size))" ]; then
    rm -rf "$new" # the connection broke
    return
  fi
  if ! split; then
    say fail "the host cannot store the script: is the disk full?"
    rm -rf "$new"
    return
  fi

  mkdir -p "$dir"
  touch "$dir" # not among the oldest any more
  exec 9>>"$dir/lock"
  # A lock without a claim is that of another client who begins just now.
  tries=0
  until flock -w 0.2 9; do
    tries=$((tries + 1))
    if [ -e "$dir/claim" ] || [ "$tries" -ge 50 ]; then
      break
    fi
  done
  if flock -n 9; then # again, if it has it already
    if [ -e "$dir/stop.$attempt" ]; then
      say fail "the run was stopped before it began"
    elif ! owner || { [ "$run" != "$attempt" ] && [ -e "$dir/delivered" ]; }; then
      begin
    fi
  fi
  exec 9>&- 8>&-
  rm -rf "$new"
  follow
}

# prepare makes a directory of this session's own, new, and removes what others
# left: directories of sessions that broke, and steps of long ago.
prepare() {
  exec 7>>"$steps/.lock"
  flock 7
  for old in "$steps"/.new.*; do
    [ -e "$old/alive" ] && flock -n "$old/alive" rm -rf "$old"
  done
  # shellcheck disable=SC2012 # names of steps are letters, digits, dots, hyphens and underscores
  ls -1t "$steps" | tail -n "+$((kept + 1))" | while read -r old; do
    flock -n "$steps/$old/lock" rm -rf "${steps:?}/$old"
  done
  new=$(mktemp -d "$steps/.new.XXXXXXXX") || return
  exec 8>"$new/alive"
  flock 8
  exec 7>&-
}

# split makes files of what was received.
split() {
  part 0 "$supervise_size" >"$new/supervise" &&
    part "$supervise_size" "$script_size" >"$new/script" &&
    part "$((supervise_size + script_size))" "$stdin_size" >"$new/stdin" &&
    rm "$new/input"
}

# part prints bytes of it: from where, how many.
part() { tail -c "+$(($1 + 1))" "$new/input" | head -c "$2"; }

begin() {
  leftover
  rm -f "$dir/claim" "$dir/delivered" "$dir/result" "$dir/group" "$dir/log" "$dir"/stop.*
  mv "$new/supervise" "$new/script" "$new/stdin" "$dir/"
  # Ends when the supervisor has turned to its log: its claim is made by then.
  trouble=$(setsid -f bash "$dir/supervise" 2>&1 8>&-)
  if [ ! -e "$dir/claim" ]; then
    rm -f "$dir/supervise" "$dir/script" "$dir/stdin"
    say fail "the run cannot begin: $(printf %s "$trouble" | tr '\n' ' ')"
  fi
}

# leftover kills a script whose supervisor died. A group of that number may be
# another's by now.
leftover() {
  if [ -e "$dir/group" ] && read -r group <"$dir/group" && grep -q -a -F "$dir/script" "/proc/$group/cmdline" 2>/dev/null; then
    kill -s KILL -- "-$group"
  fi
}

# follow passes on the log and, once it is over, the result.
follow() {
  if ! owner; then
    say absent
    return
  fi
  say run "$run" "$boot" "$(cat "$boot_file")"
  flock -s "$dir/lock" true >/dev/null 2>&1 &
  waiter=$!
  tail -c "+$((offset + 1))" -f -s 0.1 --pid="$waiter" "$dir/log"
  if ! over; then # nobody reads any more
    kill "$waiter"
    return
  fi
  code=none reason=none size=0
  if [ -e "$dir/result" ]; then
    read -r code reason size <"$dir/result"
  elif [ "$boot" = "$(cat "$boot_file")" ]; then
    leftover
  fi
  say end "${code:-none}" "${reason:-none}" "${size:-0}"
  if read -r answer && [ "$answer" = delivered ]; then
    : >"$dir/delivered"
  fi
}

# stop ends the run that goes on, and one that is about to begin.
stop() {
  umask 077
  mkdir -p "$dir"
  : >"$dir/stop.$attempt"
  owner || flock -w 3 -s "$dir/lock" true
  if owner && [ "$run" = "$target" ] && ! over; then
    kill -TERM "$pid"
    if ! flock -w "$((grace + 5))" -s "$dir/lock" true; then
      leftover
      kill -KILL "$pid"
      if ! flock -w 5 -s "$dir/lock" true; then
        say fail "its processes cannot be killed"
        return
      fi
    fi
  fi
  if [ "$run" = "$target" ]; then
    : >"$dir/delivered"
  fi
  say stopped
}
