"""Shared settings of the tests: one torch thread, and the same hypothesis examples every time."""

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile("lntutor", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lntutor")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small matrices on a busy machine: more threads wait for each other."""
    torch.set_num_threads(1)
