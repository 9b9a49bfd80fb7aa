module termgate

go 1.19
