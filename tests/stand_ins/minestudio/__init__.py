"""NOT MineStudio: a stand-in with its interface, for machines where it is not installed."""

IS_STAND_IN = True
