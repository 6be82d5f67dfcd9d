"""A small language model learns to write: four asynchronous workers, characters of a text, and five seeds.

A transformer of 32 thousand parameters (two layers, width 32, 32 characters of context) learns the topics of Python's
interactive help. Four workers commit gradients that are three versions old on average to a server with AdamW. Left: the
validation loss in nats per character, with the losses of tables of frequencies on the same held-out sequences: of
single characters, of pairs and of triples. Right: text that the model of the first seed writes.

After 1500 commits every seed is below the table of pairs (2.451): 1.94, 1.98, 1.95, 1.97 and 1.87, and above that of
triples (1.780), with the text of CPython 3.11. The model writes words, but no sentences. The run takes 56 seconds of
CPU time, compilation included. With 16 workers AdamW needs a smaller step size: one seed is at 2.65 after 1000 commits
with 0.001, and at 3.19 with 0.003.

    asyncsim run scenarios/language.py
    asyncsim run scenarios/language.py --text book.txt --commits 3000 --out runs/book
    asyncsim run scenarios/language.py --workers 16 --learning-rate 0.001
"""

import textwrap

import jax
import numpy as np

import asyncsim as asim
from asyncsim.plots.style import BLUE, GREY, INK

TABLES = {"single characters": 0, "pairs": 1, "triples": 2}  # name -> characters before the one to be predicted
POINTS = 15  # of a curve
LINE, LINES = 66, 22  # characters and lines of the sample that fit


def compute(
    text="python",
    workers=4,
    commits=1500,
    learning_rate=0.003,
    layers=2,
    width=32,
    heads=2,
    context=32,
    batch_size=32,
    prompt="The ",
    written=500,
    temperature=0.7,
    seeds=5,
) -> dict[str, np.ndarray]:
    """Validation losses of every seed, those of tables of frequencies, and a sample of text.

    Args:
        text: "python" for the topics of Python's help, or the path of a text.
        workers: Number of workers, whose compute times are gamma variables with a coefficient of variation of 0.3.
        commits: Length of each run.
        learning_rate: Step size of AdamW.
        layers: Layers of the model.
        width: Numbers that represent a character.
        heads: Heads of an attention.
        context: Characters that the model sees at most.
        batch_size: Sequences in a mini-batch.
        prompt: The beginning of the text that is written.
        written: Characters to write.
        temperature: Logits are divided by this when the text is written.
        seeds: Seeds of initial parameters and mini-batches, on one schedule.
    """
    data = asim.datasets.Text(text, context=context)
    model = asim.workloads.Transformer(data, layers, width, heads, batch_size)
    cluster = asim.Cluster(workers, asim.delays.Gamma(mean=1.0, cv=0.3))
    trace = asim.simulate(cluster, commits=commits)
    rule = asim.rules.ServerOptimiser(np.full(seeds, learning_rate), optimiser="adamw")
    record = {"test_loss": max(1, commits // POINTS)}
    run = asim.replay(trace, rule, model, tuple(range(seeds)), record=record)
    final = np.asarray(jax.vmap(lambda params: model.evaluate(params)["test_loss"])(run.central))
    first = jax.tree.map(lambda leaf: leaf[0], run.central)
    tables = np.array([data.table_loss(k) for k in TABLES.values()])
    return {
        "seed": np.arange(seeds),
        "test_loss": final,
        "perplexity": np.exp(final),
        "below_pairs": final < tables[1],
        "mean_staleness": np.array(trace.staleness.mean()),
        "parameters": np.array(sum(leaf.size for leaf in jax.tree.leaves(first))),
        "losses": np.asarray(run.records["test_loss"]),
        "recorded_at": np.asarray(run.recorded_at["test_loss"]),
        "tables": tables,
        "sample": np.array(model.sample(first, prompt, written, temperature=temperature)),
    }


def draw(figure, numbers) -> None:
    """The losses of all seeds above those of the tables, and the sample."""
    left, right = figure.subplots(1, 2)
    for losses in numbers["losses"]:
        left.plot(numbers["recorded_at"], losses, color=BLUE, linewidth=1)
    for name, loss in zip(TABLES, numbers["tables"], strict=True):
        left.axhline(loss, color=GREY, linewidth=1)
        left.annotate(f"table of {name}", (1, loss), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    left.set(xlabel="commits", ylabel="validation loss, nats per character", xlim=(0, None))
    right.axis("off")
    lines = [part for line in str(numbers["sample"]).split("\n") for part in textwrap.wrap(line, LINE) or [""]]
    right.text(
        0, 1, "\n".join(lines[:LINES]), family="monospace", fontsize="small", color=INK, va="top", parse_math=False
    )


experiment = asim.Experiment(compute, draw, title="A language model and four late workers", size=(11.0, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
