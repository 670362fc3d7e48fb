"""For packages built on rankreg, such as `rankreg_bench`: the library's own names for tables, files and screens.

look_up: the value of a name in a table, or an error that suggests the nearest valid name.
write_whole: write a file whole or not at all; is_stream: whether a path is a pipe or a terminal.
read_json, read_arrays: what a file from a stranger holds, read within bounds and never executed.
say, Terminal: print text in which names from files cannot steer the terminal.
run_parallel: call a function on many tasks in worker processes; `WorkerDied` marks a task that killed its worker.
cores: how many cores this process may use.
keep_freed_memory: train small networks faster in a worker process.
"""

from rankreg._names import look_up
from rankreg._terminal import Terminal, say
from rankreg.pool import WorkerDied, cores, keep_freed_memory, run_parallel
from rankreg.safe_files import is_stream, read_arrays, read_json, write_whole

__all__ = [
    "Terminal",
    "WorkerDied",
    "cores",
    "is_stream",
    "keep_freed_memory",
    "look_up",
    "read_arrays",
    "read_json",
    "run_parallel",
    "say",
    "write_whole",
]
