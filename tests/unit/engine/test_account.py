"""Every unit of a command's input has one fate."""

from __future__ import annotations

import pickle

import pytest

from loader.engine import Account, AccountError, IncompleteError


def some_account() -> Account:
    account = Account()
    account.see("files", 4)
    account.use("files", 2)
    account.leave("files", "L101", "README", size_bytes=7)
    account.leave("files", "L101", "LICENSE", size_bytes=5)
    account.take("rows", 3)
    return account


def test_equal_sums_pass() -> None:
    some_account().check()


@pytest.mark.parametrize("count", [-1, 1])
def test_a_unit_without_a_fate_or_with_two_is_an_error(count: int) -> None:
    account = some_account()
    account.use("rows", count)
    with pytest.raises(AccountError, match=r"3 rows were read, but \d used"):
        account.check()


def test_units_of_one_reason_are_added_under_the_first_example() -> None:
    [entry] = some_account().left_out
    assert (entry.count, entry.size_bytes, entry.example) == (2, 12, "README")


def test_a_unit_that_proves_unusable_moves_to_failed() -> None:
    account = some_account()
    account.withdraw("rows", "F102", "t.csv, line 2")
    account.check()
    assert account.to_document()["used"]["rows"] == 2
    assert [(entry.unit, entry.reason) for entry in account.failed] == [("rows", "F102")]


def test_accounts_of_workers_add_up() -> None:
    account = some_account()
    account.merge(pickle.loads(pickle.dumps(some_account())))
    account.check()
    document = account.to_document()
    assert document["seen"] == {"files": 8, "rows": 6, "bytes": 24}
    assert document["left_out"][0]["count"] == 4


def test_an_unknown_reason_is_an_error() -> None:
    with pytest.raises(AccountError, match="X1"):
        Account().leave("files", "X1", "a")


def test_a_strict_command_names_each_reason_with_an_example() -> None:
    Account().check_complete(at="/out")
    with pytest.raises(IncompleteError, match=r"2 files: .*\[L101\], first README"):
        some_account().check_complete(at="/out")
