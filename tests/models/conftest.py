"""What the tests of models share: torch in one thread.

In: pytest's start. Out: nothing. Small models gain nothing from more threads, which wait for each other by spinning.
"""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """For the whole run: another room's tests are as well off with it."""
    torch.set_num_threads(1)
