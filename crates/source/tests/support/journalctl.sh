#!/bin/sh
# Stand-in for journalctl: its N-th start runs the script `run.N` of the folder that it is given, and
# leaves its arguments there. Beyond the last script it writes nothing.
for argument in "$@"; do
    case $argument in --directory=*) directory=${argument#--directory=} ;; esac
done
cd "$directory" || exit 1
start=$(($(cat starts 2>/dev/null || echo 0) + 1))
printf '%s\n' "$@" >"arguments.$start"
echo "$start" >starts
[ -f "run.$start" ] || exec sleep 1000
. "./run.$start"
