"""The demonstration: import a real-sized CSV file, kill the worker half-way, and prove that nothing was lost.

``outlast demo`` runs :func:`outlast.demo.main.main`. It makes everything that it needs in a folder of its own: the
CSV file (:mod:`orders`), a warehouse database that is none of Outlast's (:mod:`warehouse`) and, unless it is given
another, the Outlast database. The workflow and its activities (:mod:`importing`) are what a user would write; they run
in worker processes (:mod:`worker_process`) that the driver (:mod:`drive`) starts, watches, kills and replaces. What
happened is then read back from both databases (:mod:`evidence`) and checked against what must hold (:mod:`checks`).
"""
