"""For packages built on rankreg, such as `rankreg_bench`: what the library itself uses for names, files and cores.

look_up: the value of a name in a table, or an error that suggests the nearest valid name.
write_whole: write a file whole or not at all.
cores: how many cores this process may use.
keep_freed_memory: train small networks faster in a worker process.
"""

from rankreg._cores import cores, keep_freed_memory
from rankreg._files import write_whole
from rankreg._names import look_up

__all__ = ["cores", "keep_freed_memory", "look_up", "write_whole"]
