"""IPython as the code of the documentation's pages finds it."""

c = get_config()  # noqa: F821
c.HistoryManager.enabled = False
c.InlineBackend.figure_formats = {"png"}
c.InlineBackend.print_figure_kwargs = {"dpi": 150, "bbox_inches": "tight", "facecolor": "white"}
