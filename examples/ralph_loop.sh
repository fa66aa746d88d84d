#!/bin/sh
# The Ralph loop: the same agent, started again and again, knows nothing but the files of the handoff.
#
#   sh examples/ralph_loop.sh [SESSION [FOLDER [AGENT…]]]
#
# Each turn writes feature-list.json, progress.txt, init.sh and handoff.md, runs the agent under a lease, and reads
# the files back: what the agent marked as passing is a claim. The judge, another principal, runs the check of every
# claim; only its verdict counts. Without AGENT a few lines of shell stand in for it, and do one feature per turn.
set -eu

session=${1:-ralph}
folder=${2:-ralph}
[ $# -lt 2 ] || shift 2
turns_max=20

scripted_agent='
feature=$(sed -n "/\"id\":/{s/.*\"id\": \"\([^\"]*\)\".*/\1/;h};/\"passes\": false/{g;p;q}" feature-list.json)
touch "$feature.done"
awk "!found && /\"passes\": false/ { sub(/false/, \"true\"); found = 1 } { print }" feature-list.json > new.json
mv new.json feature-list.json
echo "Made $feature.done." >> progress.txt
'
mkdir -p "$folder"
ds append "$session" "$(cat <<'EVENT'
{"id": "outcome", "type": "ds.outcome.defined", "features": [
  {"id": "plan", "text": "There is a plan.", "check": "test -f plan.done"},
  {"id": "code", "text": "There is code.", "check": "test -f code.done"}]}
EVENT
)"

turn=0
until ds state "$session" --json | grep -q '"done":true'; do
  turn=$((turn + 1))
  [ "$turn" -le "$turns_max" ] || { echo "Not done after $turns_max turns." >&2; exit 1; }
  ds handoff "$session" --write "$folder"
  (
    cd "$folder"
    [ $# -gt 0 ] || set -- sh -c "$scripted_agent"
    ds wake "$session" --principal coder -- "$@"
    ds append "$session" --type agent.message --text "Turn $turn is over." --principal coder
    ds handoff "$session" --read . --principal coder
    for feature in $(ds state "$session" --json | sed -n 's/.*"checkpoint":{[^}]*"done":\[\([^]]*\)\].*/\1/p' |
      tr -d '"' | tr ',' ' '); do
      ds evaluate "$session" "$feature" --run --principal judge
    done
  )
done
ds state "$session"
