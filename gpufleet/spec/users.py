"""People who log in to the hosts of a site, and their groups."""

from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import WHOLE, AccountName, Name, SshKey, Switch


class UserGroup(Model):
    """A group of people with the same number on every host."""

    name: Annotated[AccountName, Field(description="Its name, unique in the site.", examples=["ml"])]
    gid: Annotated[
        int, Field(ge=1000, le=60_000, description="Its number on every host.", examples=[2000]), WHOLE
    ]


class User(Model):
    """A person who logs in, with the same numbers on every host. There are no passwords: keys only."""

    name: Annotated[AccountName, Field(description="The login name, unique in the site.", examples=["ada"])]
    uid: Annotated[
        int, Field(ge=1000, le=60_000, description="The number on every host.", examples=[2001]), WHOLE
    ]
    gid: Annotated[
        Annotated[int, Field(ge=1000, le=60_000), WHOLE] | None,
        Field(description="The number of the user's own group; `uid` if left out.", examples=[2001]),
    ] = None
    groups: Annotated[tuple[AccountName, ...], Field(description="Further groups.", examples=[["ml"]])] = ()
    ssh_keys: Annotated[
        tuple[SshKey, ...],
        Field(
            description="Public keys that may log in.",
            examples=[["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ada@example.com"]],
        ),
    ] = ()
    teams: Annotated[
        tuple[Name, ...], Field(description="Teams whose accounts may be used.", examples=[["research"]])
    ] = ()
    sudo: Annotated[Switch, Field(description="Whether the user may become root.")] = False


UserGroups = Annotated[tuple[UserGroup, ...], Field(description="Groups of people.")]
Users = Annotated[tuple[User, ...], Field(description="People who log in.")]
