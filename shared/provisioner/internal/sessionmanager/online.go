package sessionmanager

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

// onlineEvery is the time between two looks at an instance.
const onlineEvery = 5 * time.Second

// WaitOnline waits until the instance's agent is connected, for OnlineTimeout at
// most.
func (c *Client) WaitOnline(ctx context.Context, target string) error {
	limit := time.NewTimer(c.config.OnlineTimeout)
	defer limit.Stop()
	ticker := time.NewTicker(onlineEvery)
	defer ticker.Stop()
	for {
		info, err := c.describe(ctx, target)
		switch {
		case denied(err):
			return &AccessDeniedError{Target: target, Action: "ssm:DescribeInstanceInformation", Err: err}
		case err != nil:
			return fmt.Errorf("look whether %s is online: %w", target, err)
		case info.PingStatus == types.PingStatusOnline:
			return nil
		}
		select {
		case <-ticker.C:
		case <-limit.C:
			return &NotOnlineError{
				Target: target, Status: string(info.PingStatus), LastPing: aws.ToTime(info.LastPingDateTime), Waited: c.config.OnlineTimeout,
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for %s, not online: %s: %w", target, offline(string(info.PingStatus), aws.ToTime(info.LastPingDateTime)), context.Cause(ctx))
		}
	}
}

// describe is what the service knows of an instance; nothing if it is not
// registered.
func (c *Client) describe(ctx context.Context, target string) (types.InstanceInformation, error) {
	out, err := c.config.API.DescribeInstanceInformation(ctx, &ssm.DescribeInstanceInformationInput{
		Filters: []types.InstanceInformationStringFilter{{Key: aws.String("InstanceIds"), Values: []string{target}}},
	})
	if hasCode(err, "InvalidInstanceId") {
		return types.InstanceInformation{}, nil
	}
	if err != nil || len(out.InstanceInformationList) == 0 {
		return types.InstanceInformation{}, err
	}
	return out.InstanceInformationList[0], nil
}

// notConnected explains a refusal by what the service knows of the instance, if
// the caller may ask.
func (c *Client) notConnected(ctx context.Context, target string, cause error) error {
	e := &TargetNotConnectedError{Target: target, Err: cause}
	info, err := c.describe(ctx, target)
	switch {
	case err != nil:
		e.Detail = "see that the instance runs, that its SSM agent does, and that its instance profile has the policy AmazonSSMManagedInstanceCore"
	case info.PingStatus == types.PingStatusOnline:
		e.Detail = "its agent is online for Systems Manager but not for sessions; see that it reaches the endpoint ssmmessages and that its version has sessions"
	default:
		e.Detail = offline(string(info.PingStatus), aws.ToTime(info.LastPingDateTime))
	}
	return e
}
