"""The two libraries for Python that LSEG hands out: one program under two names."""

import contextlib
import importlib

LIBRARIES = ("lseg.data", "refinitiv.data")


@contextlib.contextmanager
def library(name, server):
    """A session of lseg-data or refinitiv-data with a deployed platform, as its documentation has it."""
    ld = importlib.import_module(name)
    session = ld.session.platform.Definition(
        app_key="key", deployed_platform_host=f"127.0.0.1:{server.port}",
        deployed_platform_username="user", dacs_application_id="256", dacs_position="127.0.0.1").get_session()
    session.open()
    try:
        ld.session.set_default(session)
        yield ld, session
    finally:
        session.close()


def plain(fields):
    """Fields as a library gives them, without what it makes of dates and times."""
    return {name: value for name, value in fields.items() if name not in ("TRADE_DATE", "TRDTIM_1")}
