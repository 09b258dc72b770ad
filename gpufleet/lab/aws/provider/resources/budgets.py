"""AWS Budgets with their notifications."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

from gpufleet.lab.aws.provider.errors import is_missing, keep_on_failure
from gpufleet.lab.aws.provider.handler import AutoName, Aws, Defaults, Handler, only
from gpufleet.lab.aws.provider.mapper import Names, tag_list, tags_to_map, to_request
from gpufleet.lab.aws.provider.resources.tagging import retag
from gpufleet.lab.aws.provider.schema import Problem
from gpufleet.lab.aws.provider.wire import Props

_TIME = "%Y-%m-%d_%H:%M"
_NEVER = "2087-06-15_00:00"
"""AWS's end date of a budget without one."""
_OF_THE_BUDGET = (
    "autoAdjustData", "billingViewArn", "budgetType", "costTypes", "filterExpression", "metrics", "name",
    "timeUnit",
)  # fmt: skip
_EXPRESSION = {
    f"{prefix}{key}": value
    for prefix in ("", "ands.", "ors.", "not.", "ands.ands.", "ands.ors.", "ands.not.", "ors.ands.",
    "ors.ors.",
                   "ors.not.", "not.ands.", "not.ors.", "not.not.")
    for key, value in (("ands", "And"), ("ors", "Or"))
}  # fmt: skip
_NAMES = Names(
    rename={
        "name": "BudgetName",
        "metrics": "Metrics",
        **{f"filterExpression.{key}": value for key, value in _EXPRESSION.items()},
    },
    encode={"metrics": lambda value: [value]},
    decode={"metrics": lambda values: values[0] if values else None},
)


class Budget(Handler):
    """aws.budgets.Budget."""

    pulumi_type = "aws:budgets/budget:Budget"
    force_new = frozenset({"accountId", "name", "namePrefix"})
    computed = frozenset({
        "accountId", "autoAdjustData", "billingViewArn", "costFilters", "costTypes", "filterExpression",
        "limitAmount",
        "limitUnit", "timePeriodStart", "metrics",
    })  # fmt: skip
    defaults: ClassVar[Defaults] = {"timePeriodEnd": _NEVER}
    sets = frozenset({"costFilters", "notifications", "plannedLimits"})
    auto_name = AutoName(max_length=100)

    def check(self, inputs: Props) -> list[Problem]:
        """Check that the budget has an amount (fixed, planned or adjusted by AWS), and what goes together."""
        found = []
        for one, other in (("filterExpression", "metrics"), ("metrics", "filterExpression")):
            if inputs.get(one) and not inputs.get(other):
                found.append(Problem(one, f"set {other}, too: AWS cannot compute the cost without it"))
        for one, other in (("filterExpression", "costFilters"), ("metrics", "costTypes")):
            if inputs.get(one) and inputs.get(other):
                found.append(Problem(one, f"conflicts with {other}: remove one of them"))
        if not any(inputs.get(key) for key in ("limitAmount", "plannedLimits", "autoAdjustData")):
            found.append(Problem("limitAmount", "set one of limitAmount, plannedLimits and autoAdjustData"))
        for index, item in enumerate(inputs.get("notifications") or ()):
            if not item.get("subscriberEmailAddresses") and not item.get("subscriberSnsTopicArns"):
                found.append(
                    Problem(
                        f"notifications[{index}]",
                        "a notification needs a subscriber: an e-mail or an SNS topic",
                    )
                )
        return found

    @staticmethod
    def _budget(aws: Aws, inputs: Props) -> dict[str, Any]:
        shape = aws.client("budgets").meta.service_model.shape_for("Budget")
        made = to_request(shape, only(inputs, *_OF_THE_BUDGET), _NAMES)
        if inputs.get("limitAmount"):
            made["BudgetLimit"] = {
                "Amount": str(inputs["limitAmount"]),
                "Unit": inputs.get("limitUnit") or "USD",
            }
        if inputs.get("costFilters"):
            made["CostFilters"] = {item["name"]: list(item["values"]) for item in inputs["costFilters"]}
        if inputs.get("plannedLimits"):
            made["PlannedBudgetLimits"] = {
                str(int(_moment(item["startTime"]).timestamp())): {
                    "Amount": str(item["amount"]),
                    "Unit": item["unit"],
                }
                for item in inputs["plannedLimits"]
            }
        period = {
            member: _moment(inputs[key])
            for key, member in (("timePeriodStart", "Start"), ("timePeriodEnd", "End"))
            if inputs.get(key)
        }
        return made | ({"TimePeriod": period} if period else {})

    def create(self, aws: Aws, inputs: Props) -> str:
        """Create the budget, then its notifications."""
        account = str(inputs.get("accountId") or aws.account)
        tags = {"ResourceTags": tag_list(inputs["tags"])} if inputs.get("tags") else {}
        aws.client("budgets").create_budget(AccountId=account, Budget=self._budget(aws, inputs), **tags)
        rid = f"{account}:{inputs['name']}"
        with keep_on_failure(rid):
            self._notify(aws, rid, [], inputs.get("notifications") or [])
        return rid

    @staticmethod
    def _of(rid: str) -> dict[str, str]:
        account, _, name = rid.partition(":")
        return {"AccountId": account, "BudgetName": name}

    def _notify(self, aws: Aws, rid: str, old: list[Props], new: list[Props]) -> None:
        budgets, of = aws.client("budgets"), self._of(rid)
        before, after = [_canonical(item) for item in old], [_canonical(item) for item in new]
        for item in before:
            if item not in after:
                budgets.delete_notification(**of, Notification=_notification(item))
        for item in after:
            if item not in before:
                budgets.create_notification(
                    **of, Notification=_notification(item), Subscribers=_subscribers(item)
                )

    def read(self, aws: Aws, rid: str, state: Props) -> Props | None:
        """Return the budget, its notifications and their subscribers."""
        budgets, of = aws.client("budgets"), self._of(rid)
        found = budgets.describe_budget(**of)["Budget"]
        out = self.decode(found, _NAMES)
        limit = found.get("BudgetLimit") or {}
        declared = str(state.get("limitAmount") or "")
        amount = str(limit.get("Amount", ""))
        # AWS writes 1000 as 1000.0: keep the program's spelling while the amount is the same.
        same = bool(declared and amount) and float(declared) == float(amount)
        out |= {"limitAmount": declared if same else amount or None, "limitUnit": limit.get("Unit")}
        out["costFilters"] = [
            {"name": name, "values": list(values)}
            for name, values in sorted((found.get("CostFilters") or {}).items())
        ]
        period = found.get("TimePeriod") or {}
        for key, member in (("timePeriodStart", "Start"), ("timePeriodEnd", "End")):
            if isinstance(period.get(member), dt.datetime):
                out[key] = period[member].astimezone(dt.UTC).strftime(_TIME)
        out["notifications"] = self._notifications(budgets, of)
        out["arn"] = aws.arn("budgets", f"budget/{of['BudgetName']}", region="")
        out["accountId"] = of["AccountId"]
        out["tags"] = self._tags(budgets, str(out["arn"]))
        return out

    @staticmethod
    def _notifications(budgets: Any, of: dict[str, str]) -> list[Props]:
        made: list[Props] = []
        try:
            listed = budgets.describe_notifications_for_budget(**of).get("Notifications") or []
        except Exception as error:
            if is_missing(error):
                return []
            raise
        for item in listed:
            key = {
                name: item[name]
                for name in ("NotificationType", "ComparisonOperator", "Threshold", "ThresholdType")
            }
            heard = (
                budgets.describe_subscribers_for_notification(**of, Notification=key).get("Subscribers") or []
            )
            made.append({
                "comparisonOperator": item["ComparisonOperator"],
                "notificationType": item["NotificationType"],
                "threshold": item["Threshold"], "thresholdType": item.get("ThresholdType", "PERCENTAGE"),
                "subscriberEmailAddresses": _addresses(heard, "EMAIL"),
                "subscriberSnsTopicArns": _addresses(heard, "SNS"),
            })  # fmt: skip
        return made

    @staticmethod
    def _tags(budgets: Any, arn: str) -> dict[str, str]:
        return tags_to_map(budgets.list_tags_for_resource(ResourceARN=arn).get("ResourceTags"))

    def update(self, aws: Aws, rid: str, old: Props, new: Props, changed: frozenset[str]) -> None:
        """Change amount, filters, notifications and tags in place."""
        budgets, of = aws.client("budgets"), self._of(rid)
        if changed - {"tags", "notifications"}:
            budgets.update_budget(AccountId=of["AccountId"], NewBudget=self._budget(aws, new))
        if "notifications" in changed:
            self._notify(aws, rid, old.get("notifications") or [], new.get("notifications") or [])
        retag(
            budgets, {"ResourceARN": str(old["arn"])}, old, new, tags="ResourceTags", keys="ResourceTagKeys"
        )

    def delete(self, aws: Aws, rid: str, state: Props) -> None:
        """Delete the budget with its notifications."""
        aws.client("budgets").delete_budget(**self._of(rid))


def _addresses(subscribers: list[dict[str, str]], kind: str) -> list[str]:
    return sorted(item["Address"] for item in subscribers if item["SubscriptionType"] == kind)


def _moment(text: str) -> dt.datetime:
    return dt.datetime.strptime(text, _TIME).replace(tzinfo=dt.UTC)


def _canonical(item: Props) -> Props:
    return {
        **only(item, "comparisonOperator", "notificationType", "thresholdType"),
        "threshold": float(item["threshold"]),
        "subscriberEmailAddresses": sorted(item.get("subscriberEmailAddresses") or ()),
        "subscriberSnsTopicArns": sorted(item.get("subscriberSnsTopicArns") or ()),
    }


def _notification(item: Props) -> dict[str, Any]:
    return {
        "NotificationType": item["notificationType"], "ComparisonOperator": item["comparisonOperator"],
        "Threshold": item["threshold"], "ThresholdType": item["thresholdType"],
    }  # fmt: skip


def _subscribers(item: Props) -> list[dict[str, str]]:
    return [
        *({"SubscriptionType": "EMAIL", "Address": address} for address in item["subscriberEmailAddresses"]),
        *({"SubscriptionType": "SNS", "Address": arn} for arn in item["subscriberSnsTopicArns"]),
    ]


HANDLERS = (Budget(),)
