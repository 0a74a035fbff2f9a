"""Repositories of the Hugging Face Hub, read where they lie.

==================== =================================================================
`node_files.py`      small files that the processes of a node share
`request_pace.py`    the hub's limits of requests, obeyed by the processes of a node
`hub_requests.py`    requests to the hub: token, limits, errors, and answers that a node shares
`addresses.py`       where the bytes of files are, until the signed addresses expire
`request_needs.py`   how many requests a run needs, and the limits of plans
`hub_client.py`      a repository at a commit, as a client of objects
`commit_upload.py`   files uploaded by the hub's own client, and named by commits
==================== =================================================================
"""
