"""A backup can be restored into the same or a later major version of PostgreSQL."""

import pytest

from config.backups.server_versions import ServerTooOld, dumped_version, refuse_older, shown


@pytest.mark.parametrize(
    ("dumped", "target"), [(180006, 180006), (180006, 180001), (150004, 180006), (0, 150004)]
)
def test_the_same_and_later_major_versions_are_accepted(dumped: int, target: int) -> None:
    refuse_older(dumped=dumped, target=target)


@pytest.mark.parametrize(("dumped", "target"), [(180006, 150015), (160000, 159999)])
def test_an_earlier_major_version_is_refused_with_both(dumped: int, target: int) -> None:
    with pytest.raises(ServerTooOld) as refused:
        refuse_older(dumped=dumped, target=target)

    assert f"PostgreSQL {shown(dumped)}, and" in str(refused.value)
    assert f"PostgreSQL {shown(target)}:" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (";     Dumped from database version: 18.6", 180006),
        (";     Dumped from database version: 15.13 (Debian 15.13-0+deb12u1)", 150013),
        (";     Dumped from database version: 19beta1", 190000),
        ("; nothing", 0),
    ],
)
def test_an_earlier_backup_has_its_version_in_the_dump(line: str, version: int) -> None:
    assert dumped_version(f";\n{line}\n;\n") == version
