"""Options of the attacks, beside those of tests/live/conftest.py."""


def pytest_addoption(parser):
    group = parser.getgroup("attacks", "attacks on the proxy")
    group.addoption("--modes", metavar="reject,allow", help="what the proxy does with sessions without a term")
    group.addoption("--quick", action="store_true", help="one mode a row, chosen by its name")
    group.addoption("--part", metavar="K/N", help="every N-th row, from the K-th on; --long: all of them")
    group.addoption("--prove", action="store_true", help="try each attack on a direct connection too, where it must do its harm")
    group.addoption("--seconds", type=float, metavar="S", help="random sessions for so long, shared by majors and modes")
    group.addoption("--replay", metavar="SEED", help="this random session alone, on the first of --majors and --modes")
    group.addoption("--workers", metavar="N", help="random sessions at a time")
    group.addoption("--breaches", metavar="N", help="how many kinds of breach are played again and made shorter")
