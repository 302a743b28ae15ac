#!/bin/sh
# A command line client of an engine that is not there: a container is a folder, a program in it bubblewrap's.
# It takes the commands that the backend gives.
state=$FAKE_DOCKER
printf '%s\n' "$*" | head -1 >>"$state/asked"
verb=$1
shift
for last; do :; done
case $verb in
version) echo 28.0 ;;
inspect) echo false ;;
run)
  while [ "$1" != --name ]; do shift; done
  mkdir -p "$state/$2/workspace" "$state/$2/tmp"
  echo 0123456789ab
  ;;
rm)
  if [ -f "$state/$last/pids" ]; then kill -9 $(cat "$state/$last/pids") 2>/dev/null; fi
  rm -rf "${state:?}/$last"
  ;;
exec)
  variables=0
  while [ "${1#--}" != "$1" ]; do
    if [ "$1" = --env ]; then
      set -- "$@" "$2"
      variables=$((variables + 1))
      shift
    elif [ "$1" = --workdir ]; then
      shift
    fi
    shift
  done
  exec 3<&0
  box=$state/$1
  shift
  words=$(($# - variables))
  while [ $words -gt 0 ]; do
    set -- "$@" "$1"
    shift
    words=$((words - 1))
  done
  bwrap --unshare-pid --unshare-net --as-pid-1 --die-with-parent --ro-bind /usr /usr --ro-bind /etc /etc \
    --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev \
    --bind "$box/workspace" /workspace --bind "$box/tmp" /tmp --chdir /workspace \
    -- /bin/sh -c '"$@"' sh /usr/bin/env -i PATH=/usr/bin:/bin "$@" <&3 3<&- &
  echo $! >>"$box/pids"
  wait $!
  ;;
esac
