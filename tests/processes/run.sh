#!/usr/bin/env bash
# Ranks in processes: mpirun starts the programs as a user would, and the answers are those of one process.
# And a rank that fails ends the run on all, with its words.
# usage: run.sh COTERIE COTERIE_CHAT PROCESS_FAULTS FOLDER_OF_MODELS; exit status 77: skipped
set -uo pipefail
coterie=$1 chat=$2 faults=$3 models=$4
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun; it comes with the package openmpi-bin"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_mpi_yield_when_idle=1
failures=0

several() {
    local n=$1
    shift
    timeout 200 mpirun -n "$n" --bind-to none "$@"
}

check() { # NAME GOT WANT
    if [[ $2 == "$3" ]]; then
        echo "ok: $1"
    else
        printf 'FAILED: %s\n  got:  %q\n  want: %q\n' "$1" "$2" "$3"
        failures=$((failures + 1))
    fi
}

for model in qwen3moe qwen35moe-a llama; do
    say=("$chat" "$models/$model.gguf" -q -t 1 -c 128 --kv f32 --raw -p "the cat" --temperature 0 -n 24)
    want=$("${say[@]}" | base64)
    [[ -n $want ]] || { echo "FAILED: $model says nothing alone"; failures=$((failures + 1)); }
    for way in "2 tensor" "4 tensor" "3 expert" "3 layer"; do
        read -r n mode <<<"$way"
        [[ $model == llama && $mode == expert ]] && continue
        check "$model, $n processes, $mode" "$(several "$n" "${say[@]}" --mode "$mode" 2>/dev/null | base64)" "$want"
    done
done

# Several engines one after the other, and many streams.
report=$(several 3 "$coterie" bench "$models/qwen3moe.gguf" -t 1 -c 1,3 -p 4 -n 8 -r 1 --warm-prefix 70 --json 2>/dev/null)
check "bench reports once" "$(grep -c n_streams <<<"$report")" 2

# What can't be done ends with a sentence on every process, and nothing hangs.
words=$(several 2 "$chat" "$models/qwen3moe.gguf" -q --devices cpu:2 -p x 2>&1)
check "ranks within ranks end" $? 1
check "and say why" "$(grep -c "each of them is one CPU rank" <<<"$words" | sed 's/^[1-9].*/some/')" some
words=$(several 2 "$chat" /nowhere.gguf -q -p x 2>&1)
check "a file that is not there ends" $? 1
words=$(COTERIE_MPI_LIBRARY=/nowhere.so several 2 "$chat" "$models/qwen3moe.gguf" -q -p x 2>&1)
check "without the plug-in it ends" $? 1
check "and says which" "$(grep -c "the plug-in for MPI could not be opened (/nowhere.so:" <<<"$words" | sed 's/^[1-9].*/some/')" some

# The last of three ranks fails. In layer mode the ranks before it have done their parts by then.
failing() { # FAULT MODE RANK WORDS
    local said
    said=$(several 3 "$faults" "$models/qwen3moe.gguf" $1 ${2/tensor/} 2>&1) || said+=" (exit status $?)"
    check "$1, $2: rank $3" "$(sed -n "s/^rank $3: //p" <<<"$said" | grep -c "$4") of: $said" "1 of: $said"
    check "$1, $2: all three ended" "$(grep -c '^rank' <<<"$said")" 3
}
for mode in tensor layer; do
    failing none $mode 0 "ended well"
    failing step $mode 0 "^rank 2 failed: the last card fell off the bus$"
    failing loading $mode 0 "^the last card is full$"
    failing late $mode 0 "waited 2000 ms for rank 2$"
done
failing step tensor 1 "^rank 2 failed: the last card fell off the bus$"

exit $((failures > 0))
