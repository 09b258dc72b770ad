"""Route 53 Resolver: what moto accepts and AWS rejects, and changes of rules.

moto has endpoints, rules and their associations. No query is sent here. Sources: Route 53 API reference
(CreateResolverRule, UpdateResolverRule, AssociateResolverRule) and its error codes.
"""

from __future__ import annotations

from typing import Any

from moto.core.utils import utcnow

from gpufleet.lab.aws.backends.operation import AwsError, Call, Params, Passthrough, operation

MOST_TARGETS = 6
"""Target addresses of a rule (Route 53 Developer Guide, "Quotas on Route 53 Resolver")."""


def _backend(call: Call) -> Any:
    from moto.route53resolver.models import route53resolver_backends

    return route53resolver_backends[call.account][call.region]


@operation("route53resolver", "CreateResolverRule")
def create_rule(call: Call) -> Passthrough:
    """Reject a forwarding rule without an outbound endpoint, or with too many servers."""
    if call.params["RuleType"] == "FORWARD":
        _check(call, call.params.get("TargetIps"), call.params.get("ResolverEndpointId"))
    return call.original()


@operation("route53resolver", "UpdateResolverRule")
def update_rule(call: Call) -> Params:
    """Change the name, the servers or the endpoint of a rule."""
    rule = _backend(call).resolver_rules.get(call.params["ResolverRuleId"])
    if rule is None:
        message = f"Resolver rule with ID '{call.params['ResolverRuleId']}' does not exist."
        raise AwsError("ResourceNotFoundException", message)
    wanted = call.params["Config"]
    targets = wanted.get("TargetIps") or rule.target_ips
    endpoint = wanted.get("ResolverEndpointId") or rule.resolver_endpoint_id
    if rule.rule_type == "FORWARD":
        _check(call, targets, endpoint)
    rule.name, rule.target_ips = wanted.get("Name", rule.name), targets
    rule.resolver_endpoint_id = endpoint
    rule.modification_time = utcnow().isoformat()
    return {"ResolverRule": rule.description()}


@operation("route53resolver", "AssociateResolverRule")
def associate_rule(call: Call) -> Passthrough:
    """Reject a second rule for the same domain in a VPC."""
    backend = _backend(call)
    rule = backend.resolver_rules.get(call.params["ResolverRuleId"])
    for each in backend.resolver_rule_associations.values():
        other = backend.resolver_rules.get(each.resolver_rule_id)
        if rule and other and each.vpc_id == call.params["VPCId"] and other.domain_name == rule.domain_name:
            message = f"Cannot associate rules with same domain name with same VPC: {rule.domain_name}"
            raise AwsError("InvalidRequestException", message)
    return call.original()


def _check(call: Call, targets: Any, endpoint: str | None) -> None:
    if not targets or len(targets) > MOST_TARGETS:
        number = len(targets or ())
        raise AwsError("InvalidRequestException", f"A rule has 1 to {MOST_TARGETS} target IPs, not {number}.")
    found = _backend(call).resolver_endpoints.get(endpoint)
    if found is None or found.direction != "OUTBOUND":
        raise AwsError("InvalidRequestException", f"{endpoint} is no outbound Resolver endpoint.")
