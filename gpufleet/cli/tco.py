"""`gpufleet tco`: GPUs rented in the cloud against GPUs bought and run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpufleet.cli.arguments import Json
from gpufleet.cli.html_file import HtmlFile


def register(app: typer.Typer) -> None:
    """Add the command of this module to `app`."""
    app.command()(tco)


def tco(
    utilization: Annotated[str, typer.Option("--utilization", help="Used share of all hours, such as 70%.")],
    gpus: Annotated[int | None, typer.Option("--gpus", help="Number of GPUs.")] = None,
    system: Annotated[str | None, typer.Option("--system", help="What is bought, such as dgx-h100.")] = None,
    years: Annotated[float | None, typer.Option("--years", help="Years of use, up to 20.")] = None,
    environment: Annotated[
        str | None,
        typer.Option("--env", "-e", help="Racks of this environment, instead of --gpus and --system."),
    ] = None,
    site: Annotated[
        str | None, typer.Option("--site", help="The site of --env, if it has several with racks.")
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", help="What is rented; default: the type with this GPU.")
    ] = None,
    region: Annotated[str, typer.Option("--region", help="Where it is rented.")] = "us-east-1",
    cloud_price: Annotated[
        str | None,
        typer.Option("--cloud-price", help="USD per GPU-hour, such as '6.88 USD/h'; default: on-demand."),
    ] = None,
    reserved: Annotated[
        str, typer.Option("--reserved", help="Share of the GPUs that is reserved, and paid used or not.")
    ] = "0%",
    reserved_term: Annotated[str, typer.Option("--reserved-term", help="1y or 3y.")] = "1y",
    reserved_payment: Annotated[
        str, typer.Option("--reserved-payment", help="Paid upfront: none, partial or all.")
    ] = "none",
    reserved_price: Annotated[
        str | None,
        typer.Option("--reserved-price", help="USD per reserved GPU-hour; default: the catalog's."),
    ] = None,
    spot: Annotated[str, typer.Option("--spot", help="Share of the other hours on spot.")] = "0%",
    spot_overhead: Annotated[
        str, typer.Option("--spot-overhead", help="Time that interruptions add, as `spot simulate` computes.")
    ] = "0%",
    savings_plan: Annotated[
        str | None,
        typer.Option("--savings-plan", help="Refused: no rates are in the catalog; use --reserved-price."),
    ] = None,
    acquisition: Annotated[
        str | None, typer.Option("--acquisition", help="Price of a node; default: the catalog's.")
    ] = None,
    power_per_gpu: Annotated[
        str | None,
        typer.Option("--power-per-gpu", help="Such as '0.7 kW'; default: the system's maximum power."),
    ] = None,
    idle_power: Annotated[
        str, typer.Option("--idle-power", help="Share of the power that is drawn without load.")
    ] = "0%",
    pue: Annotated[
        float | None, typer.Option("--pue", help="Power usage effectiveness, from 1 to 3; default 1.25.")
    ] = None,
    energy_price: Annotated[
        str | None, typer.Option("--energy-price", help="Such as '0.11 USD/kWh'; default 0.1 USD/kWh.")
    ] = None,
    network_share: Annotated[
        str, typer.Option("--network-share", help="Share of switches and cables in the price of the whole.")
    ] = "0%",
    residual: Annotated[
        str, typer.Option("--residual", help="Share of the price that a buyer pays at the end.")
    ] = "0%",
    financing: Annotated[str, typer.Option("--financing", help="Yearly interest, such as 6%.")] = "0%",
    support: Annotated[
        str | None,
        typer.Option("--support", help="Support contracts per year. Default: 0, or that of --env."),
    ] = None,
    colocation: Annotated[
        str | None, typer.Option("--colocation", help="Colocation per year. Default: 0, or that of --env.")
    ] = None,
    staff: Annotated[
        str | None, typer.Option("--staff", help="Staff per year. Default: 0, or that of --env.")
    ] = None,
    spread: Annotated[
        str, typer.Option("--spread", help="Range of values without a range of their own, each way.")
    ] = "20%",
    draws: Annotated[int, typer.Option("--draws", help="Draws of the bands.")] = 5_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same bands.")] = 0,
    plots: Annotated[
        Path | None, typer.Option("--plots", help="Write plots to this folder.", file_okay=False)
    ] = None,
    plot_format: Annotated[str, typer.Option("--plot-format", help="svg or png.")] = "svg",
    html: HtmlFile = None,
    json: Json = False,
) -> None:
    """Compare renting and buying GPUs over years, with the utilization and the month where they are equal.

    Rent is paid for used hours, what is bought is paid used or not. Values that were not given are listed as
    assumptions; parts that are 0 by default (network, support, staff) make buying look less expensive.
    """
    from gpufleet.cli.tco_run import TcoOptions, run

    run(
        TcoOptions(
            environment=environment,
            site=site,
            gpus=gpus,
            system=system,
            years=years,
            utilization=utilization,
            instance_type=instance_type,
            region=region,
            cloud_price=cloud_price,
            reserved=reserved,
            reserved_term=reserved_term,
            reserved_payment=reserved_payment,
            reserved_price=reserved_price,
            spot=spot,
            spot_overhead=spot_overhead,
            savings_plan=savings_plan,
            acquisition=acquisition,
            power_per_gpu=power_per_gpu,
            idle_power=idle_power,
            pue=pue,
            energy_price=energy_price,
            network_share=network_share,
            residual=residual,
            financing=financing,
            support=support,
            colocation=colocation,
            staff=staff,
            spread=spread,
            draws=draws,
            seed=seed,
            plots=plots,
            plot_format=plot_format,
            html=html,
        ),
        json=json,
    )
