# OpenSSH's server on port 2224, for whoever has a key in ~/.ssh/authorized_keys of the container. May be run again.
port=2224 pidfile=/run/iris-sshd.pid

runs() { [ -s "$pidfile" ] && kill -0 "$(cat "$pidfile")" 2>/dev/null; }
find_sshd() { command -v sshd || ls /usr/sbin/sshd /usr/local/sbin/sshd 2>/dev/null || true; }

if runs; then
  echo "sshd listens on port $port already"
  exit 0
fi
if [ -z "$(find_sshd)" ]; then
  echo "installing OpenSSH's server"
  if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends openssh-server
  elif command -v apk >/dev/null; then
    apk add --quiet --no-cache openssh-server
  elif command -v dnf >/dev/null; then
    dnf install -y -q openssh-server
  elif command -v microdnf >/dev/null; then
    microdnf install -y openssh-server
  elif command -v yum >/dev/null; then
    yum install -y -q openssh-server
  else
    echo "the image has neither sshd nor a package manager to install it with" >&2
    exit 1
  fi
fi
sshd=$(find_sshd | head -n 1)
if [ -z "$sshd" ]; then
  echo "there is no sshd after its installation" >&2
  exit 1
fi
mkdir -p /run/sshd /etc/ssh
ssh-keygen -A
# It has bound its port when this returns; that the port is another's is an error here.
"$sshd" -p "$port" -o "PidFile=$pidfile" -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password -o UsePAM=no
echo "sshd listens on port $port"
