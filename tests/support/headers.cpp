// Nothing: its target owns the headers that all tests read precompiled.
