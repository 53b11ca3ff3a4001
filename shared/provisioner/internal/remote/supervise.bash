# shellcheck shell=bash
# The supervisor of one run: a process of its own that no lost connection
# reaches. It holds file descriptor 9, the lock of the step, for as long as it
# lives. The client puts values for these in front of it, and exports what the
# script is to find in its environment:
#   dir                     of the step
#   attempt, boot_file      as in session.sh
#   limit, grace            seconds until TERM (0 for never), and from then to KILL
#   log_kilobytes           how much of the output is kept from its beginning
#   tail_bytes              and from its end

main() {
  umask 022
  cd /
  unset BASH_ENV ENV
  PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  HOME=${HOME:-/root}
  export PATH HOME

  local child='' reason=exited caught='' code started=$SECONDS
  # timeout passes it on to the whole group, and KILL after the grace.
  trap 'reason=stopped caught=1; if [[ $child ]]; then kill -TERM "$child"; fi' TERM

  : >"$dir/log"
  exec 8>"$dir/drained"
  flock 8
  exec 3<"$dir/stdin"
  rm -f "$dir/stdin"
  printf '%s %s %s\n' "$attempt" "$(<"$boot_file")" "$$" >"$dir/claim.new"
  mv -f "$dir/claim.new" "$dir/claim"
  exec > >(keep_output) 2>&1 8>&-

  # Job control gives the script a process group of its own, and the default
  # for INT and QUIT, which background processes else ignore.
  set -m
  timeout -k "$grace" "$limit" bash "$dir/script" <&3 3<&- 9>&- &
  child=$!
  set +m
  exec 3<&- 2>/dev/null # bash reports killed children
  printf '%s\n' "$child" >"$dir/group"
  if [[ $reason == stopped ]]; then
    kill -TERM "$child"
  fi

  # A signal ends wait early; it is asked again then.
  while
    caught=
    wait "$child"
    code=$?
    [[ $caught ]]
  do :; done
  if [[ $reason == exited ]] && ((limit > 0 && SECONDS - started >= limit)) && [[ $code == 124 || $code == 137 ]]; then
    reason=timeout
    echo "kubeopera: stopped after $limit s"
  fi
  if [[ $reason != exited ]]; then
    # What else is in the group has the same time to end.
    started=$SECONDS
    while kill -0 -- "-$child" && ((SECONDS - started < grace)); do
      sleep 0.1
    done
    kill -KILL -- "-$child"
  fi

  # All output is in the log once its writer ends. Processes that the script left
  # behind may keep it waiting; what they say later is not part of the result.
  exec >/dev/null
  flock -w 2 "$dir/drained" true
  printf '%s %s %s\n' "$code" "$reason" "$(stat -c %s "$dir/log")" >"$dir/result.new"
  mv -f "$dir/result.new" "$dir/result"
  rm -f "$dir/script" "$dir/supervise"
}

# keep_output writes the log. tee alone is under the limit and goes on without
# the file when it is reached; the last of all output is added then.
keep_output() {
  exec >/dev/null 2>&1 3<&- 9>&-
  (
    trap '' XFSZ
    ulimit -f "$log_kilobytes"
    exec tee -a "$dir/log"
  ) | tail -c "$tail_bytes" >"$dir/tail"
  if (($(stat -c %s "$dir/log") >= log_kilobytes * 1024)); then
    printf '\nkubeopera: the output is too long: some of it is left out here\n' | cat - "$dir/tail" >>"$dir/log"
  fi
  rm -f "$dir/tail"
}

main
exit 0
