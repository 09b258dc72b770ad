"""Client ids of OpenID Connect providers, which moto supports only at creation."""

from __future__ import annotations

from typing import Any

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, operation


@operation("iam", "AddClientIDToOpenIDConnectProvider")
def add_client_id(call: Call) -> Params:
    """Add an audience; an existing one is not an error."""
    clients = _provider(call).client_id_list
    if call.params["ClientID"] not in clients:
        clients.append(call.params["ClientID"])
    return {}


@operation("iam", "RemoveClientIDFromOpenIDConnectProvider")
def remove_client_id(call: Call) -> Params:
    """Remove an audience; a missing one is not an error."""
    provider = _provider(call)
    provider.client_id_list = [one for one in provider.client_id_list if one != call.params["ClientID"]]
    return {}


def _provider(call: Call) -> Any:
    from moto.iam.models import iam_backends

    arn = call.params["OpenIDConnectProviderArn"]
    provider = iam_backends[call.account][call.partition].open_id_providers.get(arn)
    if provider is None:
        raise AwsError("NoSuchEntity", f"OpenIDConnect Provider not found for arn {arn}")
    return provider
