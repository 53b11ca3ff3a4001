# shellcheck shell=bash
# Which machine this is, and its packages.

# identify_host refuses operating systems that nobody has tried.
identify_host() {
  local id version
  # shellcheck source=/dev/null
  id=$(. "$ROOT/etc/os-release" && printf '%s' "${ID:-}")
  # shellcheck source=/dev/null
  version=$(. "$ROOT/etc/os-release" && printf '%s' "${VERSION_ID:-}")
  case $id-$version in
    ubuntu-22.04) FAMILY=apt OS=ubuntu2204 CODENAME=jammy ;;
    ubuntu-24.04) FAMILY=apt OS=ubuntu2404 CODENAME=noble ;;
    rocky-9 | rocky-9.*) FAMILY=dnf OS=rhel9 CODENAME= ;;
    amzn-2023 | amzn-2023.*) FAMILY=dnf OS=amzn2023 CODENAME= ;;
    *) die "$EXIT_INPUT" "operating system ${id:-unknown} $version is not supported: Ubuntu 22.04 and 24.04, Rocky Linux 9 and Amazon Linux 2023 are" ;;
  esac
  case $(uname -m) in
    x86_64) ARCH=amd64 ;;
    aarch64) ARCH=arm64 ;;
    *) die "$EXIT_INPUT" "machine type $(uname -m) is not supported: x86_64 and aarch64 are" ;;
  esac
  if [[ -n ${WANT_ARCH:-} && $WANT_ARCH != "$ARCH" ]]; then
    die "$EXIT_INPUT" "the machine is $ARCH, not $WANT_ARCH"
  fi
}

# wait_for_boot waits until cloud-init, which installs packages too, is through.
# That it failed is not our concern.
wait_for_boot() {
  if command -v cloud-init >/dev/null; then
    run timeout 900 cloud-init status --wait || log "cloud-init did not succeed"
  fi
}

# apt waits for updates that the system makes by itself.
apt() { retry 6 apt-get -y -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"; }

dnf_() { retry 6 dnf -y -q "$@"; }

# installed_version is a package's version with its epoch, if it has one; nothing if
# it is not installed.
installed_version() {
  local found
  case $FAMILY in
    apt)
      # shellcheck disable=SC2016 # the variables are dpkg's
      found=$(dpkg-query -W -f='${Status}\t${Version}\n' "$1" 2>/dev/null || true)
      if [[ $found == 'install ok installed'$'\t'* || $found == 'hold ok installed'$'\t'* ]]; then
        printf '%s' "${found#*$'\t'}"
      fi
      ;;
    dnf)
      if ! rpm -q "$1" >/dev/null 2>&1; then
        return
      fi
      found=$(rpm -q --qf '%{EPOCH}\t%{VERSION}-%{RELEASE}\n' "$1")
      # Of several (kernels) the last is the newest.
      found=${found##*$'\n'}
      if [[ $found == '(none)'$'\t'* ]]; then
        printf '%s' "${found#*$'\t'}"
      else
        printf '%s' "${found/$'\t'/:}"
      fi
      ;;
  esac
}

# fits says whether a version is the wanted one: nothing means any, a trailing * any
# rest; with an epoch or a revision it is meant exactly, else any revision will do.
#   fits <version> <wanted>
fits() {
  local version=$1 wanted=$2
  if [[ -z $version ]]; then
    return 1
  fi
  case $wanted in
    '') return 0 ;;
    *'*') [[ ${version#*:} == "${wanted%'*'}"* ]] ;;
    *:*) [[ $version == "$wanted" ]] ;;
    *-*) [[ ${version#*:} == "$wanted" ]] ;;
    *) [[ ${version#*:} == "$wanted" || ${version#*:} == "$wanted"-* ]] ;;
  esac
}

# package_spec is how apt or dnf is told a version.
#   package_spec <name> <wanted> [epoch of the package in apt]
package_spec() {
  local name=$1 wanted=$2 epoch=${3:-}
  if [[ -z $wanted ]]; then
    printf '%s' "$name"
    return
  fi
  if [[ $FAMILY == dnf ]]; then
    printf '%s-%s' "$name" "$wanted"
    return
  fi
  if [[ $wanted != *:* ]]; then
    wanted=$epoch$wanted
  fi
  case ${wanted#*:} in
    *'*' | *-*) printf '%s=%s' "$name" "$wanted" ;;
    *) printf '%s=%s-*' "$name" "$wanted" ;;
  esac
}

# ensure_packages installs packages in their versions, and does nothing if they are
# there. No other version is taken instead of a wanted one. CHANGED becomes 1 if
# something was installed.
#   ensure_packages <code of failure> { <name> <wanted> <epoch> }...
ensure_packages() {
  local code=$1 specs=() options=()
  shift
  while (($# > 0)); do
    if ! fits "$(installed_version "$1")" "$2"; then
      specs+=("$(package_spec "$1" "$2" "$3")")
    fi
    shift 3
  done
  if ((${#specs[@]} == 0)); then
    return
  fi
  case $FAMILY in
    apt)
      apt update || die "$EXIT_DEPENDENCY" "the package lists cannot be updated"
      options=(--allow-downgrades --allow-change-held-packages)
      apt install "${options[@]}" "${specs[@]}" || die "$code" "cannot install ${specs[*]}; no other version is taken instead"
      ;;
    dnf)
      # Our own repository excludes its packages, from upgrades of the system.
      dnf_ install --disableexcludes=kubeopera-kubernetes "${specs[@]}" || die "$code" "cannot install ${specs[*]}; no other version is taken instead"
      ;;
  esac
  CHANGED=1
}

# hold keeps upgrades of the system from changing packages; on dnf the repository's
# exclude does that.
hold() {
  local name missing=() held
  if [[ $FAMILY == dnf ]]; then
    return
  fi
  held=$(apt-mark showhold)
  for name in "$@"; do
    if [[ $'\n'$held$'\n' != *$'\n'$name$'\n'* ]]; then
      missing+=("$name")
    fi
  done
  if ((${#missing[@]} > 0)); then
    run apt-mark hold "${missing[@]}"
  fi
}

# ensure_tools installs what the steps themselves need and the smallest images lack.
ensure_tools() {
  local packages=() gnupg=gnupg
  if [[ $FAMILY == dnf ]]; then
    gnupg=gnupg2
  fi
  # By command: of curl and gnupg Amazon Linux has variants that exclude each other.
  if ! command -v curl >/dev/null; then packages+=(curl '' ''); fi
  if ! command -v gpg >/dev/null; then packages+=("$gnupg" '' ''); fi
  if ! command -v tar >/dev/null; then packages+=(tar '' ''); fi
  packages+=(ca-certificates '' '')
  ensure_packages "$EXIT_DEPENDENCY" "${packages[@]}"
}

download() {
  retry 6 curl -sS -f -L --proto =https --proto-redir =https --retry 3 --connect-timeout 20 --max-time 900 -o "$2" "$1" ||
    die "$EXIT_DEPENDENCY" "cannot download $1"
}

# fetch downloads a file that must have the given sum.
#   fetch <URL> <SHA-256> <file>
fetch() {
  download "$1" "$3"
  if [[ $(sha256sum <"$3") != "$2  -" ]]; then
    rm -f "$3"
    die "$EXIT_VERIFY" "$1 does not have the SHA-256 sum $2"
  fi
}

# fetch_key downloads a repository's key, which must have the given fingerprint.
#   fetch_key <URL> <fingerprint> <file>
fetch_key() {
  local found
  download "$1" "$3"
  found=$(gpg --batch --with-colons --show-keys "$3" 2>/dev/null | awk -F: '$1 == "fpr" { print $10; exit }') || found=
  if [[ $found != "$2" ]]; then
    rm -f "$3"
    die "$EXIT_VERIFY" "the key of $1 has fingerprint ${found:-none}, want $2"
  fi
}

# add_apt_repository adds a repository that only its own key may sign for.
#   add_apt_repository <name> <URL of the key> <fingerprint> <rest of the source line>
add_apt_repository() {
  local keyring=$ROOT/etc/apt/keyrings/kubeopera-$1.gpg list=$ROOT/etc/apt/sources.list.d/kubeopera-$1.list
  local content
  content="# signed by $3"$'\n'"deb [signed-by=${keyring#"$ROOT"}] $4"$'\n'
  if [[ -s $keyring ]] && same_content "$list" "$content"; then
    return
  fi
  fetch_key "$2" "$3" "$WORK/key"
  mkdir -p "$ROOT/etc/apt/keyrings"
  gpg --batch --yes --dearmor -o "$keyring" "$WORK/key"
  # apt reads it as a user of its own.
  chmod 755 "$ROOT/etc/apt/keyrings"
  chmod 644 "$keyring"
  put "$list" "$content"
}

# add_dnf_repository is the same for dnf. Packages are signed, unless $5 is metadata:
# then the repository's index is, which has their sums.
#   add_dnf_repository <name> <URL of the key> <fingerprint> <base URL> [metadata] [exclude]
add_dnf_repository() {
  local key=$ROOT/etc/pki/rpm-gpg/kubeopera-$1 repository=$ROOT/etc/yum.repos.d/kubeopera-$1.repo
  local content signed=1 metadata=0
  if [[ ${5:-} == metadata ]]; then
    signed=0 metadata=1
  fi
  content="# signed by $3"$'\n'"[kubeopera-$1]"$'\n'"name=$1"$'\n'"baseurl=$4"$'\n'"enabled=1"$'\n'
  content+="gpgcheck=$signed"$'\n'"repo_gpgcheck=$metadata"$'\n'"gpgkey=file://${key#"$ROOT"}"$'\n'
  if [[ -n ${6:-} ]]; then
    content+="exclude=$6"$'\n'
  fi
  if [[ -s $key ]] && same_content "$repository" "$content"; then
    return
  fi
  fetch_key "$2" "$3" "$WORK/key"
  put "$key" "$(cat "$WORK/key")"$'\n'
  run rpm --import "$key"
  put "$repository" "$content"
}

# has_gpu looks for an NVIDIA display or 3D controller on the PCI bus.
has_gpu() {
  local device
  for device in "$ROOT"/sys/bus/pci/devices/*; do
    if [[ -r $device/vendor && $(<"$device/vendor") == 0x10de && $(<"$device/class") == 0x03* ]]; then
      return 0
    fi
  done
  return 1
}
