"""The golden list of megatron-energon's names is that of the installed version."""

from __future__ import annotations

from tests.interop import census
from tests.interop.conftest import Peer


def test_the_list_of_names_is_that_of_the_installed_megatron_energon(peer: Peer) -> None:
    found, listed = (set(text.splitlines()) for text in (census.peer_names(peer.python), census.PEER_NAMES.read_text()))
    assert (found - listed, listed - found) == (set(), set())
