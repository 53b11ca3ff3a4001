# shellcheck shell=bash
# A script of the user's own, in a process of its own: nothing in it ends ours.

# read_environment turns lines NAME=base64 of standard input into a file that sets
# them; the values are on no command line.
read_environment() {
  local line name value
  secret_file environment
  while IFS= read -r line; do
    name=${line%%=*}
    if [[ $line != *=* || ! $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then
      die "$EXIT_INPUT" "standard input has a value without a name"
    fi
    value=$(printf '%s' "${line#*=}" | base64 -d && printf x) || die "$EXIT_INPUT" "the value of $name cannot be read"
    printf 'export %s=%q\n' "$name" "${value%x}" >>"$WORK/environment.secret"
  done
}

# run_template runs the script unless it has succeeded before with the same text and
# environment. Its first command that fails ends it, as in bash -e; its descendants
# go with it when the time is over.
run_template() {
  local marker=$STATE_DIR/templates/$TEMPLATE_ID sum code=0
  read_environment
  sum=$({ printf '%s\0' "$TEMPLATE_CONTENT" && cat "$WORK/environment.secret"; } | sha256sum)
  if same_content "$marker" "$sum"; then
    log "skipped: template $TEMPLATE_NAME has run before with the same content"
    return
  fi
  printf '%s' "$TEMPLATE_CONTENT" >"$WORK/template"
  log "template $TEMPLATE_NAME begins"
  # Without our lock, which a service that it starts would keep.
  # shellcheck disable=SC2016 # the inner shell's arguments
  (
    cd "$ROOT/"
    exec timeout -k 10 "$TEMPLATE_TIMEOUT" "$BASH" -c '. "$1" && rm -f -- "$1" && exec "$BASH" -e -- "$2"' \
      "$TEMPLATE_NAME" "$WORK/environment.secret" "$WORK/template"
  ) </dev/null >&2 9>&- || code=$?
  case $code in
    0) ;;
    124 | 137) die "$EXIT_OTHER" "template $TEMPLATE_NAME was ended after $TEMPLATE_TIMEOUT s" ;;
    *) die "$EXIT_OTHER" "template $TEMPLATE_NAME failed with status $code" ;;
  esac
  put "$marker" "$sum"
  log "template $TEMPLATE_NAME has succeeded"
}
