"""The compiled event engine: integer nanoseconds and 512-byte sectors, plain functions over record arrays.

Read it in this order: `codes` (the vocabulary), `state` (the tables), `loop` (the event loop), then the parts that the
loop calls: `tasks` (the small programs), `block` (bio, request, plug, merge, tags), `flush`, `device`, `disk` (with
`platter`, `disk_cache` and `segments`), `journal`.
The rules of the schedulers are not here but in `iosched.schedulers`, one file a scheduler.
"""
