"""Serve the objects of an S3 server by nginx, the fastest server of static files, and count its requests.

nginx answers from its cache, which signed requests fill; listings and writes go to the server behind it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from s3_server import free_port, server_process

__all__ = ["NginxFront", "nginx_front"]

_CONFIGURATION = """\
daemon off; pid {folder}/pid; error_log {folder}/errors; worker_processes 1; {user}
events {{ worker_connections 4096; }}
http {{
  log_format requests '$request_method $status $body_bytes_sent'; access_log {folder}/requests requests;
  sendfile on; tcp_nodelay on; keepalive_requests 1000000;
  client_body_temp_path {folder}/bodies; proxy_temp_path {folder}/answers;
  fastcgi_temp_path {folder}/unused1; uwsgi_temp_path {folder}/unused2; scgi_temp_path {folder}/unused3;
  proxy_cache_path {folder}/objects levels=1:2 keys_zone=objects:10m max_size=20g inactive=1d use_temp_path=off;
  upstream store {{ server {store}; keepalive 16; }}
  map $args $is_listing {{ default 1; "" 0; "~X-Amz-Signature" 0; }}
  server {{
    listen 127.0.0.1:{port}; client_max_body_size 0;
    location / {{
      proxy_pass http://store; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_cache objects; proxy_cache_key $uri; proxy_cache_valid 200 1d; proxy_cache_convert_head off;
      proxy_cache_methods GET; proxy_cache_lock on; proxy_ignore_headers Cache-Control Expires Set-Cookie Vary;
      proxy_cache_bypass $is_listing; proxy_no_cache $is_listing;
    }}
  }}
}}
"""


class NginxFront:
    """A running nginx.

    Attributes:
        url: Its URL.
    """

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log
        self._read_bytes = 0

    def new_requests(self) -> tuple[Counter[str], int]:
        """Return the requests since the last call by method, and the bytes of their answers."""
        time.sleep(0.2)  # the last lines are written after the answers
        with self._log.open() as file:
            file.seek(self._read_bytes)
            lines = [line.split() for line in file]
            self._read_bytes = file.tell()
        return Counter(method for method, *_ in lines), sum(int(sent) for *_, sent in lines)


@contextmanager
def nginx_front(folder: Path, store_url: str) -> Iterator[NginxFront]:
    """Start nginx before an S3 server; it ends with the context.

    Args:
        folder: Folder for its files, which must not exist.
        store_url: URL of the server.

    Raises:
        RuntimeError: nginx is not installed, or did not start.
    """
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise RuntimeError("this needs nginx, which Debian has as nginx-light")
    folder.mkdir(parents=True)
    port = free_port()
    configuration = folder / "configuration"
    user = "user root;" if os.geteuid() == 0 else ""
    store = store_url.removeprefix("http://")
    configuration.write_text(_CONFIGURATION.format(folder=folder, store=store, port=port, user=user))
    with server_process([program, "-c", str(configuration)], {**os.environ}, folder, port):
        yield NginxFront(f"http://127.0.0.1:{port}", folder / "requests")
