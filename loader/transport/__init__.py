"""Send micro-batches between processes through shared memory.

``message`` packs bundles of messages for the rank, which unpacks each micro-batch when it is used, in shared memory
that is reused: the system clears and maps each new page when it is first written, which costs more than the write.

Invariants:

1. *One piece for a bundle.* All tensors and arrays of a bundle of 2 KiB and more are copied to one piece of shared
   memory, each at a multiple of 64 bytes. Everything else is in the pickles of its messages, which refer to the
   half-open byte ranges of the piece in order.
2. *One owner at a time.* A segment belongs to its worker while its flag is 0, and to the rank while it is 1. Only the
   worker sets 1, before it sends. Only the rank's process sets 0, when no tensor, array or view refers to the segment.
   So neither side needs a lock, and a batch never changes under a reader.
3. *No process waits for memory.* A worker has at most 16 segments. If all belong to the rank, the bundle gets a new
   piece of torch's shared memory, which the system frees with its last reference.
4. *A segment outlives its worker.* The rank opens it through ``/proc/<pid>/fd`` when it reads the message, while the
   worker still runs, and maps it once. Its address keeps a larger one that replaces it apart. The mappings of a worker
   are dropped when it ends; tensors keep theirs.
5. *Nothing stays on disk.* Segments are anonymous files, so the kernel frees them with the last process, however it
   ended.

``memfd_create`` and ``/proc`` exist on Linux only. Elsewhere (macOS) :func:`.new_flags` returns None, and every message
gets a piece of torch's shared memory as in 3.
"""
