"""Monitoring of a rack site: host of Prometheus, retention, and receivers of alerts.

Without it, the site has no exporters, no Prometheus and no alerts.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from gpufleet.spec.base import Model
from gpufleet.spec.fields import (
    ChatChannel,
    Cidr,
    HostOrAddress,
    MailAddress,
    Name,
    ServiceUser,
    Switch,
    WebAddress,
)
from gpufleet.spec.quantity import Duration, Size


class RemoteWrite(Model):
    """Where all series are sent as well. The password is GPUFLEET_SECRET_REMOTE_WRITE_PASSWORD_<SITE>."""

    url: Annotated[
        WebAddress,
        Field(
            description="The receiver, as https://metrics.example.com/api/v1/push.",
            examples=["https://metrics.example.com/api/v1/push"],
        ),
    ]
    username: Annotated[
        ServiceUser | None,
        Field(
            description="User that logs in there, with a secret password; no login if left out.",
            examples=["dc1"],
        ),
    ] = None


class WebhookReceiver(Model):
    """Alertmanager's webhook. A token is the secret GPUFLEET_SECRET_WEBHOOK_TOKEN_<SITE>."""

    url: Annotated[
        WebAddress,
        Field(
            description="What is called, without a secret in it.", examples=["https://hooks.example.com/gpu"]
        ),
    ]
    token: Annotated[Switch, Field(description="Whether it needs a bearer token, which is a secret.")] = False


class SlackReceiver(Model):
    """A channel in Slack. The webhook's address is the secret GPUFLEET_SECRET_SLACK_URL_<SITE>."""

    channel: Annotated[
        ChatChannel, Field(description="The channel, as '#gpu-alerts'.", examples=["#gpu-alerts"])
    ]


class EmailReceiver(Model):
    """E-mail. With `username`, the password is the secret GPUFLEET_SECRET_SMTP_PASSWORD_<SITE>."""

    to: Annotated[
        tuple[MailAddress, ...],
        Field(min_length=1, description="Addresses of the recipients.", examples=[["ops@example.com"]]),
    ]
    sender: Annotated[
        MailAddress, Field(description="The address that mails come from.", examples=["alerts@example.com"])
    ]
    server: Annotated[
        HostOrAddress,
        Field(description="The mail server, as mail.example.com:587.", examples=["mail.example.com:587"]),
    ]
    username: Annotated[
        ServiceUser | None,
        Field(
            description="User that logs in there, with a secret password; no login if left out.",
            examples=["alerts"],
        ),
    ] = None


class AlertReceivers(Model):
    """Receivers of alerts. Each declared receiver gets all alerts."""

    webhook: Annotated[WebhookReceiver | None, Field(description="A program.")] = None
    slack: Annotated[SlackReceiver | None, Field(description="A channel.")] = None
    email: Annotated[EmailReceiver | None, Field(description="People by e-mail.")] = None
    heartbeat: Annotated[
        Switch,
        Field(
            description="Whether a service outside of the site is called every 5 minutes, which alerts when "
            "the calls end. Its address is the secret GPUFLEET_SECRET_HEARTBEAT_URL_<SITE>."
        ),
    ] = False


class Monitoring(Model):
    """Prometheus, Alertmanager, Grafana and the exporters of a rack site."""

    host: Annotated[
        Name | None,
        Field(
            description="A controller or login host that runs it; the last controller if left out.",
            examples=["ctl02"],
        ),
    ] = None
    interval: Annotated[Duration, Field(description="How often everything is measured.")] = Duration(
        timedelta(seconds=30)
    )
    retention: Annotated[Duration, Field(description="How long series are kept on that host.")] = Duration(
        timedelta(days=30)
    )
    retention_size: Annotated[
        Size | None, Field(description="What they may take of its disk; the older go first.")
    ] = None
    remote_write: Annotated[RemoteWrite | None, Field(description="Where they are sent as well.")] = None
    alerts: Annotated[AlertReceivers, Field(description="Receivers of alerts.")] = AlertReceivers()
    grafana: Annotated[Switch, Field(description="Whether Grafana runs beside Prometheus.")] = True
    open_to: Annotated[
        tuple[Cidr, ...],
        Field(
            description="Networks beyond the cluster's from which Grafana may be opened.",
            examples=[["10.0.0.0/24"]],
        ),
    ] = ()
