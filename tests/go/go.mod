module templatefix/oracle

go 1.26
