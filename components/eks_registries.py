"""Registries of EKS's own images."""

from __future__ import annotations

from gpufleet.catalog.eks_registries import REGISTRY_ACCOUNTS
from gpufleet.errors import InputError


def eks_registry(region: str, image: str) -> str:
    """Return the host name of EKS's registry in the region. Raises InputError if it is not known.

    `image` is the key of `images` that replaces the image from this registry.
    """
    account = REGISTRY_ACCOUNTS.get(region)
    if account is None:
        raise InputError(
            f"region {region}: the registry of EKS's images is not known, and {image} comes from it",
            remedy=f"set your own image: images={{{image!r}: ...}}",
        )
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{suffix}"
