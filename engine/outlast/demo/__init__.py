"""The demonstration: import a real-sized CSV file, kill the worker half-way, and prove that nothing was lost.

``outlast demo`` runs :func:`outlast.demo.main.main`. It creates what it needs in a folder of its own: the CSV file
(:mod:`orders`), a warehouse database of which Outlast knows nothing (:mod:`warehouse`) and, unless one is given, the
Outlast database. The workflow and its activities (:mod:`importing`) are what a user would write. They run in worker
processes (:mod:`worker_process`) that the driver (:mod:`drive`) starts, observes, kills and replaces. The results are
then read back from both databases (:mod:`evidence`) and checked (:mod:`checks`).
"""
