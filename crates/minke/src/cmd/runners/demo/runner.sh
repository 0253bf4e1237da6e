# A runner as far as the look-alike of GitHub knows one: it registers with its configuration, takes a job, runs it and ends.
say() { wget -q -O - --post-data "$2" "$FORGE/_runner/$1"; }
answer=$(say connect "{\"configuration\":\"$ACTIONS_RUNNER_INPUT_JITCONFIG\"}") || exit 9
runner=$(echo "$answer" | sed 's/.*"runner":\([0-9]*\).*/\1/')
while job=$(say job "{\"runner\":$runner}"); do
  case $job in *job*) sleep 2; say done "{\"runner\":$runner}"; exit 0 ;; esac
  sleep 0.3
done
