"""Clients, which send single requests to a bucket or a server, without retries.

==================== ==========================================
`choice.py`          the client of a URL in this process
`connection.py`      the interface of clients; a client with its pace and its retries
`obstore_client.py`  requests by obstore: S3, GCS, Azure; its stores and their settings
`msc_client.py`      profiles of multi-storage-client
`http_client.py`     requests to web servers
`hub/`               repositories of the Hugging Face Hub
`limited_answer.py`  connections to allowed addresses, and answers within limits of time and bytes
`helper_client.py`   requests sent through a helper process, and messages to it
`helper.py`          the helper process
==================== ==========================================
"""
