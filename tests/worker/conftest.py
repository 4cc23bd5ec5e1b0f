"""The engine's environments, in virtual time, for tests of a module that need a whole engine around it."""

from tests.engine.conftest import _counted_afresh as _counted_afresh
from tests.engine.conftest import anyio_backend as anyio_backend
from tests.engine.conftest import engine as engine
from tests.engine.conftest import in_memory as in_memory
from tests.engine.conftest import max_cached as max_cached
from tests.engine.conftest import mode as mode
from tests.engine.conftest import one_worker as one_worker
from tests.engine.conftest import pytest_collection_modifyitems as pytest_collection_modifyitems
