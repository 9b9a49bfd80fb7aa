"""What several files of this folder use."""
import pytest


@pytest.fixture
def refused_start(lab):
    """What a proxy prints that does not start; "it started" where it does."""

    def start(backend, *options, **more):
        try:
            lab.proxy(backend, *options, **more).stop()
        except AssertionError as error:
            return str(error)
        return "it started"

    return start
